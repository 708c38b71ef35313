// What the adapters of both interfaces have in common: from the tables of any version to
// PluginCalls. Which form a function has is read from its type.
#pragma once

#include <limits>
#include <type_traits>

#include "src/plugin/calls.hpp"

namespace tutti::plugin {

inline constexpr std::size_t kMostOfInt = std::numeric_limits<int>::max();

/// As an int; nothing if it does not fit.
inline std::optional<int> to_int(std::size_t value) {
  if (value > kMostOfInt) return std::nullopt;
  return static_cast<int>(value);
}

/// For plugins that report events to a profiler: there is none.
inline abi::Outcome ignore_event(void** event, int, void*, std::int64_t, void*) {
  if (event != nullptr) *event = nullptr;
  return abi::kSuccess;
}

/// `Calls` is NetCalls or CollNetCalls, `Table` what the plugin exports.
template <class Calls, class Table, int kVersion>
class CommonAdapter : public Calls {
 public:
  explicit CommonAdapter(const Table& table) : table_(table) {}

  [[nodiscard]] int version() const final { return kVersion; }
  [[nodiscard]] const char* name() const final { return table_.name; }
  [[nodiscard]] bool has_contexts() const final { return kVersion >= 11; }

  abi::Outcome finalize(void* context) const final {
    if constexpr (kVersion >= 11)
      if (table_.finalize != nullptr) return table_.finalize(context);
    return abi::kSuccess;
  }
  abi::Outcome count_devices(int* count) const final { return table_.devices(count); }
  abi::Outcome get_properties(int device, RawProperties* properties) const final {
    abi::Properties<kVersion> own{};
    const abi::Outcome outcome = table_.get_properties(device, &own);
    *properties = newest_form<kVersion>(own, device);
    return outcome;
  }
  abi::Outcome listen(void* context, int device, void* handle, void** listener) const final {
    if constexpr (kVersion >= 11)
      return table_.listen(context, device, handle, listener);
    else
      return table_.listen(device, handle, listener);
  }

  [[nodiscard]] std::size_t most_registered_bytes() const final {
    return kVersion <= 7 ? kMostOfInt : std::numeric_limits<std::size_t>::max();
  }
  abi::Outcome register_memory(void* comm, void* data, std::size_t bytes, int type,
                               void** registration) const final {
    if constexpr (kVersion <= 7) {
      const auto size = to_int(bytes);
      if (!size) return abi::kInvalidArgument;
      return table_.register_memory(comm, data, *size, type, registration);
    } else {
      return table_.register_memory(comm, data, bytes, type, registration);
    }
  }
  [[nodiscard]] bool takes_dma_bufs() const final { return table_.register_dma_buf != nullptr; }
  abi::Outcome register_dma_buf(void* comm, void* data, std::size_t bytes, int type,
                                std::uint64_t offset, int fd, void** registration) const final {
    return table_.register_dma_buf(comm, data, bytes, type, offset, fd, registration);
  }
  abi::Outcome deregister(void* comm, void* registration) const final {
    return table_.deregister(comm, registration);
  }
  abi::Outcome test(void* request, int* done, int* bytes) const final {
    return table_.test(request, done, bytes);
  }

 protected:
  /// The plugin's own table: it may set functions to null while it initialises.
  [[nodiscard]] const Table& table() const { return table_; }

 private:
  const Table& table_;
};

}  // namespace tutti::plugin
