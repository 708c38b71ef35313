// What a plugin makes, with owners: a comm, memory registered with it, requests on it.
//
// The rules of the interface are kept here. A registration is taken back only after all requests
// that use it were tested to their end, and a comm is closed only after its registrations were
// taken back. A request cannot be cancelled. So one that its owner drops keeps its comm, its
// registrations and their memory for good: the network may still use them.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/plugin/calls.hpp"
#include "tutti/error.hpp"

namespace tutti::plugin {

enum class MemoryKind : int { kHost = abi::kHostPointers, kCuda = abi::kCudaPointers };

struct Memory {
  std::span<std::byte> bytes;
  std::shared_ptr<const void> owner{};  ///< kept as long as the plugin may use the memory
  MemoryKind kind = MemoryKind::kHost;
};
struct DmaBuf {
  int fd = -1;
  std::uint64_t offset = 0;
};

/// A plugin that has been initialised. Resource, shared: the last reference finalises it.
struct Started {
  std::shared_ptr<const PluginCalls> calls;
  std::string who;  ///< "the network plugin Socket (libnccl-net.so, version 8)"
  void* context = nullptr;
  std::vector<DeviceProperties> devices{};

  Started(std::shared_ptr<const PluginCalls> its_calls, std::string its_name);
  ~Started();
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;
};
using SharedPlugin = std::shared_ptr<const Started>;

/// "WHO failed in isend: a remote error (6)", with the plugin's last warning on this thread.
Error plugin_error(const std::string& who, const char* doing, abi::Outcome outcome);

class Comm;
using SharedComm = std::shared_ptr<Comm>;

/// Resource, shared.
class Registration {
 public:
  Registration(SharedComm comm, Memory memory, void* handle)
      : comm_(std::move(comm)), memory_(std::move(memory)), handle_(handle) {}
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  [[nodiscard]] void* handle() const { return handle_; }
  [[nodiscard]] std::span<std::byte> bytes() const { return memory_.bytes; }
  [[nodiscard]] const Comm* comm() const { return comm_.get(); }

 private:
  const SharedComm comm_;
  const Memory memory_;
  void* const handle_;
};
using SharedRegistration = std::shared_ptr<const Registration>;

/// A part of registered memory.
struct Part {
  std::span<std::byte> bytes{};
  SharedRegistration memory{};
};

/// Parts of one request.
inline constexpr std::size_t kMostParts = 8;

/// Something under way. Resource. One thread at a time, the one that uses the comm.
class Request {
 public:
  Request() = default;  ///< is_over()
  /// `parts`: what the plugin may use until it is over. `arriving`: so many of the first ones are
  /// filled, each with as much as the peer has sent.
  Request(SharedComm comm, void* handle, std::span<const Part> parts, std::size_t arriving);
  Request(Request&& other) noexcept;
  Request& operator=(Request&& other) noexcept;
  ~Request() { give_up(); }

  /// Whether it is done. Only this moves data. After true or an error it is over.
  Result<bool> test();
  [[nodiscard]] bool is_over() const { return handle_ == nullptr; }
  /// Of a receive that is done: what arrived in each part.
  [[nodiscard]] std::size_t bytes(std::size_t part = 0) const { return sizes_[part]; }

 private:
  Status take_sizes(std::span<const int> sizes);
  void end();
  void give_up();

  SharedComm comm_;
  void* handle_ = nullptr;
  std::vector<Part> parts_;
  std::size_t arriving_ = 0;
  std::array<std::size_t, kMostParts> sizes_{};
};

/// A connection of the plugin, or its listener. Resource, shared by its registrations and requests.
/// One thread at a time.
class Comm : public std::enable_shared_from_this<Comm> {
 public:
  Comm(SharedPlugin plugin, CommKind kind, void* handle)
      : plugin_(std::move(plugin)), kind_(kind), handle_(handle) {}
  virtual ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  /// kInvalidArgument if it is larger than the plugin's version can say.
  Result<SharedRegistration> register_memory(Memory memory);
  /// kUnsupported if the plugin takes none.
  Result<SharedRegistration> register_dma_buf(Memory memory, const DmaBuf& buffer);

  [[nodiscard]] const Started& plugin() const { return *plugin_; }
  [[nodiscard]] void* handle() const { return handle_; }
  /// Requests that are not over. At the plugin's limit, nothing more is issued.
  [[nodiscard]] int under_way() const { return under_way_; }
  [[nodiscard]] bool has_room() const { return under_way_ < plugin_->calls->most_requests(); }
  void count_request(int change) { under_way_ += change; }  ///< Request does

 protected:
  /// kInvalidArgument unless the part lies in memory that this comm knows.
  [[nodiscard]] Status check(const char* doing, const Part& part) const;
  /// kUnavailable if no more requests may be under way.
  [[nodiscard]] Status check_room(const char* doing) const;
  /// What a call that makes a request has come to; nothing: it would block, so try again.
  Result<std::optional<Request>> issued(const char* doing, abi::Outcome outcome, void* request,
                                        std::span<const Part> parts, std::size_t arriving = 0);
  [[nodiscard]] Error error(const char* doing, abi::Outcome outcome) const {
    return plugin_error(plugin_->who, doing, outcome);
  }

 private:
  Result<SharedRegistration> registered(const char* doing, abi::Outcome outcome, Memory memory,
                                        void* handle);

  const SharedPlugin plugin_;
  const CommKind kind_;
  void* const handle_;
  int under_way_ = 0;
};

}  // namespace tutti::plugin
