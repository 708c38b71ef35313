// PluginCalls, and what a plugin for a network does beside them.
#pragma once

#include "src/plugin/calls.hpp"

namespace tutti::plugin {

/// The arrays of a grouped receive, each with one entry for each part.
struct RawReceive {
  int count = 0;
  void** data = nullptr;
  std::size_t* bytes = nullptr;
  int* tags = nullptr;
  void** registrations = nullptr;
};

class NetCalls : public PluginCalls {
 public:
  virtual abi::Outcome connect(void* context, int device, void* handle, void** comm) const = 0;
  virtual abi::Outcome accept(void* listener, void** comm) const = 0;

  /// Of one part of a message: versions before 9 have ints.
  [[nodiscard]] virtual std::size_t most_message_bytes() const = 0;
  virtual abi::Outcome send(void* comm, void* data, std::size_t bytes, int tag, void* registration,
                            void** request) const = 0;
  virtual abi::Outcome receive(void* comm, const RawReceive& parts, void** request) const = 0;
  /// Sizes are ints in every version.
  [[nodiscard]] virtual bool flushes() const = 0;
  virtual abi::Outcome flush(void* comm, const RawReceive& parts, void** request) const = 0;
};

/// `table`: what the plugin exports as ncclNetPlugin_v<version>. Null for other versions.
std::shared_ptr<const NetCalls> net_calls(int version, const void* table);

}  // namespace tutti::plugin
