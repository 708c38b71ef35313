// The functions of a plugin of any version in one form, the newest one. Plain pointers and outcomes
// as the plugin gave them; NetPlugin and CollNetPlugin make errors and owners of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "src/plugin/abi.hpp"
#include "src/plugin/properties.hpp"

namespace tutti::plugin {

enum class CommKind : std::uint8_t { kListen, kSend, kReceive, kCollective };

/// Which functions a plugin has to have. Some fill in the others while they initialise, and those
/// without devices need none.
enum class Stage : std::uint8_t { kInit, kDevices, kAll };

/// "a system error (2)"
std::string describe(abi::Outcome outcome);

/// Sizes that do not fit into what the version passes on give kInvalidArgument, and the plugin is
/// not called; most_...() say so before.
class PluginCalls {
 public:
  virtual ~PluginCalls() = default;

  [[nodiscard]] virtual int version() const = 0;
  /// May be null, as may be what the other functions call: see missing().
  [[nodiscard]] virtual const char* name() const = 0;
  /// The name in NCCL's interface of the first function without which Tutti cannot do; null if all
  /// are there.
  [[nodiscard]] virtual const char* missing(Stage stage) const = 0;
  /// Versions from 11 on have a context for each init(). Older ones are initialised once a process.
  [[nodiscard]] virtual bool has_contexts() const = 0;

  virtual abi::Outcome init(void** context, std::uint64_t comm, abi::Logger logger) const = 0;
  virtual abi::Outcome finalize(void* context) const = 0;
  virtual abi::Outcome count_devices(int* count) const = 0;
  virtual abi::Outcome get_properties(int device, RawProperties* properties) const = 0;
  virtual abi::Outcome listen(void* context, int device, void* handle, void** listener) const = 0;

  [[nodiscard]] virtual std::size_t most_registered_bytes() const = 0;
  virtual abi::Outcome register_memory(void* comm, void* data, std::size_t bytes, int type,
                                       void** registration) const = 0;
  [[nodiscard]] virtual bool takes_dma_bufs() const = 0;
  virtual abi::Outcome register_dma_buf(void* comm, void* data, std::size_t bytes, int type,
                                        std::uint64_t offset, int fd,
                                        void** registration) const = 0;
  virtual abi::Outcome deregister(void* comm, void* registration) const = 0;
  /// `bytes`: one number for each part of the request; never null, since some plugins write there
  /// without asking.
  virtual abi::Outcome test(void* request, int* done, int* bytes) const = 0;
  virtual abi::Outcome close(CommKind kind, void* comm) const = 0;

  /// Requests of one comm that may be under way.
  [[nodiscard]] int most_requests() const {
    return version() == 6 ? abi::kMostRequestsOfV6 : abi::kMostRequests;
  }
};

}  // namespace tutti::plugin
