// A plugin of NCCL for collectives in the network, such as SHARP: ncclCollNetPlugin_v6 to _v12.
//
//   auto plugin = CollNetPlugin::open("sharp");
//   auto listener = (*plugin)->listen(device);          // its address() goes to all ranks
//   auto group = (*plugin)->connect(**listener, addresses, rank);
//   auto memory = (*group)->register_memory({bytes, owner});
//   auto request = (*group)->all_reduce({send, *memory}, {receive, *memory}, {type, op});
//   // nullopt: would block, so try again; else test() until it is done
//
// All ranks of a group issue the same operations in the same order. Nothing moves but in test().
// Sums are made in an order that the network chooses, the same for all ranks.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/plugin/collnet_calls.hpp"
#include "src/plugin/comm.hpp"
#include "src/plugin/handle.hpp"
#include "src/plugin/start.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::plugin {

struct Reduction {
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
};

/// Where one rank waits for the others. Resource. It may go once its group is connected.
class CollNetListener final : public Comm {
 public:
  CollNetListener(SharedPlugin plugin, void* comm, const Handle& address, int device)
      : Comm(std::move(plugin), CommKind::kListen, comm), address_(address), device_(device) {}
  [[nodiscard]] const Handle& address() const { return address_; }
  [[nodiscard]] int device() const { return device_; }

 private:
  const Handle address_;
  const int device_;
};

/// One rank's end of a group. Resource, shared. One thread at a time.
///
/// An operation comes to nothing where it would block, or as many are under way as the plugin
/// takes: test those, and try again. Errors leave the group of no use. Codes: kInvalidArgument for
/// sizes, windows and memory that cannot be; kUnsupported for what this plugin or version lacks;
/// else those of plugin_error().
class CollNetGroup final : public Comm {
 public:
  CollNetGroup(SharedPlugin plugin, std::shared_ptr<const CollNetCalls> calls, void* comm,
               std::size_t ranks, std::size_t rank, const DeviceProperties& device);

  [[nodiscard]] std::size_t ranks() const { return ranks_; }
  [[nodiscard]] std::size_t rank() const { return rank_; }
  /// Bytes of one operation: of the vector of an all-reduce, of the window of the others.
  [[nodiscard]] std::size_t most_bytes() const { return most_bytes_; }
  /// Elements of one all-reduce: versions before 9 count in ints.
  [[nodiscard]] std::size_t most_elements() const { return calls_->most_elements(); }

  /// Whether it reduces so. Only a group knows: SHARP asks the switches as it connects. Ranks may
  /// get different answers, so they have to agree.
  Result<bool> supports(const Reduction& reduction) const;
  /// Version 8 brought these two, and a plugin may lack either.
  [[nodiscard]] bool gathers() const { return calls_->gathers(); }
  [[nodiscard]] bool scatters() const { return calls_->scatters(); }

  /// Both parts have as many bytes, a multiple of the type's. They may be the same.
  Result<std::optional<Request>> all_reduce(const Part& send, const Part& receive,
                                            const Reduction& reduction);
  /// `receive` becomes the window. `send` is what the window has of this rank's block, perhaps
  /// nothing; then its address means nothing, but its memory has to be registered all the same.
  Result<std::optional<Request>> all_gather(const Part& send, const Part& receive,
                                            const Window& window);
  /// `send` is the window of this rank's vector. `receive` becomes what the window has of this
  /// rank's block, perhaps nothing.
  Result<std::optional<Request>> reduce_scatter(const Part& send, const Part& receive,
                                                const Window& window, const Reduction& reduction);
  /// Makes what has arrived in memory of a GPU visible to it. Nothing: there is nothing to wait
  /// for.
  Result<std::optional<Request>> flush(const Part& part);

  /// Which bytes of this rank's block lie in a window.
  [[nodiscard]] std::size_t own_bytes(const Window& window) const;

 private:
  template <class Issue>
  Result<std::optional<Request>> begin(const char* doing, std::span<const Part> parts, Issue issue);
  [[nodiscard]] Status check_window(const char* doing, const Part& whole, const Part& own,
                                    const Window& window) const;

  const std::shared_ptr<const CollNetCalls> calls_;
  const std::size_t ranks_;
  const std::size_t rank_;
  const std::size_t most_bytes_;
};

/// Resource, shared. Thread-safe; what it makes is not.
class CollNetPlugin {
 public:
  /// `name` as in NCCL_NET_PLUGIN (library.hpp). The error says in one sentence why the plugin is
  /// refused: see start().
  static Result<std::shared_ptr<CollNetPlugin>> open(const std::string& name,
                                                     const StartOptions& options = {});

  /// "the collective network plugin SHARP (libnccl-net.so, version 11)"
  [[nodiscard]] const std::string& who() const { return plugin_->who; }
  [[nodiscard]] std::string name() const { return calls_->name(); }
  [[nodiscard]] int version() const { return calls_->version(); }
  /// At least one.
  [[nodiscard]] std::span<const DeviceProperties> devices() const { return plugin_->devices; }

  Result<std::unique_ptr<CollNetListener>> listen(int device) const;
  /// All ranks call it, each with its own listener and with all listeners' addresses in the order
  /// of ranks. Waits for the others, with no deadline: plugins know none. So call it only once all
  /// ranks are known to be there, on a thread that may wait.
  Result<std::shared_ptr<CollNetGroup>> connect(const CollNetListener& listener,
                                                std::vector<Handle> addresses, int rank) const;

 private:
  CollNetPlugin(SharedPlugin plugin, std::shared_ptr<const CollNetCalls> calls)
      : plugin_(std::move(plugin)), calls_(std::move(calls)) {}

  const SharedPlugin plugin_;
  const std::shared_ptr<const CollNetCalls> calls_;
};

}  // namespace tutti::plugin
