// A network plugin of NCCL: ncclNetPlugin_v6 to _v12.
//
//   receiver: auto listener = plugin->listen(device);   // its address() goes to the sender
//             listener->accept()                        // null: not yet, so call it again
//   sender:   auto dialler = plugin->dial(device, address);
//             dialler.advance()                         // null: not yet, so call it again
//
// A connection carries messages in one direction, in order. A message waits for its receive.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/plugin/comm.hpp"
#include "src/plugin/handle.hpp"
#include "src/plugin/net_calls.hpp"
#include "src/plugin/start.hpp"
#include "tutti/error.hpp"

namespace tutti::plugin {

struct NetPluginParts {
  SharedPlugin plugin;
  std::shared_ptr<const NetCalls> calls;
};

/// The end that sends. Resource, shared. One thread at a time.
///
/// A send or receive comes to nothing where it would block, or as many are under way as the plugin
/// takes: test those, and try again. Errors leave the connection of no use. Codes: kInvalidArgument
/// for sizes and memory that cannot be, else those of plugin_error().
class NetSender final : public Comm {
 public:
  NetSender(const NetPluginParts& parts, void* comm, const DeviceProperties& device);

  [[nodiscard]] std::size_t most_bytes() const { return most_bytes_; }
  /// A message of the part's bytes, perhaps none.
  Result<std::optional<Request>> send(const Part& part, int tag);

 private:
  const std::shared_ptr<const NetCalls> calls_;
  const std::size_t most_bytes_;
};

struct TaggedPart {
  Part part{};
  int tag = 0;
};

/// The end that receives. As NetSender.
class NetReceiver final : public Comm {
 public:
  NetReceiver(const NetPluginParts& parts, void* comm, const DeviceProperties& device);

  /// Of one part: versions before 9 have ints, and so have all for the size that arrived.
  [[nodiscard]] std::size_t most_bytes() const { return most_bytes_; }
  [[nodiscard]] std::size_t most_parts() const { return most_parts_; }
  /// Takes as many messages as there are parts: each goes where its tag says. Request::bytes() has
  /// their sizes.
  Result<std::optional<Request>> receive(std::span<const TaggedPart> parts);
  Result<std::optional<Request>> receive(const Part& part, int tag) {
    const TaggedPart one{part, tag};
    return receive(std::span(&one, 1));
  }
  /// Makes what has arrived in memory of a GPU visible to it. Nothing: there is nothing to wait
  /// for.
  Result<std::optional<Request>> flush(std::span<const TaggedPart> parts);

 private:
  /// What the plugin is given.
  struct Arrays;
  Result<Arrays> arrays_of(const char* doing, std::span<const TaggedPart> parts) const;

  const std::shared_ptr<const NetCalls> calls_;
  const std::size_t most_bytes_;
  const std::size_t most_parts_;
};

/// Where a receiver waits for senders. Resource. One thread at a time.
class NetListener final : public Comm {
 public:
  NetListener(NetPluginParts parts, void* comm, const Handle& address,
              const DeviceProperties& device)
      : Comm(parts.plugin, CommKind::kListen, comm),
        parts_(std::move(parts)),
        address_(address),
        device_(device) {}

  [[nodiscard]] const Handle& address() const { return address_; }
  /// Null: nobody has connected yet, so call it again. Does not wait.
  Result<std::shared_ptr<NetReceiver>> accept();

 private:
  const NetPluginParts parts_;
  const Handle address_;
  const DeviceProperties device_;
};

/// Connects to a listener. Resource; may be dropped at any time.
class NetDialler {
 public:
  NetDialler(NetPluginParts parts, int device, const Handle& address)
      : parts_(std::move(parts)), device_(device), address_(std::make_unique<Handle>(address)) {}

  /// Null: not connected yet, so call it again. Does not wait. Not to be called after it gave one.
  Result<std::shared_ptr<NetSender>> advance();

 private:
  NetPluginParts parts_;
  int device_;
  std::unique_ptr<Handle> address_;  // some plugins keep in it how far they are
};

/// Resource, shared. Thread-safe; what it makes is not.
class NetPlugin {
 public:
  /// `name` as in NCCL_NET_PLUGIN (library.hpp). The error says in one sentence why the plugin is
  /// refused: see start().
  static Result<std::shared_ptr<NetPlugin>> open(const std::string& name,
                                                 const StartOptions& options = {});

  /// "the network plugin Socket (libnccl-net.so, version 11)"
  [[nodiscard]] const std::string& who() const { return parts_.plugin->who; }
  [[nodiscard]] std::string name() const { return parts_.calls->name(); }
  [[nodiscard]] int version() const { return parts_.calls->version(); }
  /// Requests of one connection that may be under way.
  [[nodiscard]] int most_requests() const { return parts_.calls->most_requests(); }
  /// At least one.
  [[nodiscard]] std::span<const DeviceProperties> devices() const { return parts_.plugin->devices; }

  Result<std::unique_ptr<NetListener>> listen(int device) const;
  [[nodiscard]] NetDialler dial(int device, const Handle& address) const {
    return {parts_, device, address};
  }

 private:
  explicit NetPlugin(NetPluginParts parts) : parts_(std::move(parts)) {}
  const NetPluginParts parts_;
};

}  // namespace tutti::plugin
