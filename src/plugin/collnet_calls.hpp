// PluginCalls, and what a plugin for collectives in the network does beside them.
#pragma once

#include "src/plugin/calls.hpp"

namespace tutti::plugin {

/// A part of the vector that all ranks' blocks make up, in the order of ranks.
struct Window {
  std::size_t bytes_per_rank = 0;
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// Where data is, with the registration of that memory.
struct RawPart {
  void* data = nullptr;
  std::size_t bytes = 0;
  void* registration = nullptr;
};

class CollNetCalls : public PluginCalls {
 public:
  virtual abi::Outcome connect(void** handles, int ranks, int rank, void* listener,
                               void** comm) const = 0;
  virtual abi::Outcome reduce_support(int type, int op, int* supported) const = 0;

  [[nodiscard]] virtual std::size_t most_elements() const = 0;
  virtual abi::Outcome all_reduce(void* comm, const RawPart& send, const RawPart& receive,
                                  std::size_t count, int type, int op, void** request) const = 0;
  /// Whether the next two are there. A plugin may take them away as it initialises or connects.
  [[nodiscard]] virtual bool gathers() const = 0;
  [[nodiscard]] virtual bool scatters() const = 0;
  /// Bytes of the side that has the whole window.
  [[nodiscard]] virtual std::size_t most_window_bytes() const = 0;
  virtual abi::Outcome all_gather(void* comm, const RawPart& send, const RawPart& receive,
                                  const Window& window, void** request) const = 0;
  virtual abi::Outcome reduce_scatter(void* comm, const RawPart& send, const RawPart& receive,
                                      const Window& window, int type, int op,
                                      void** request) const = 0;
  [[nodiscard]] virtual bool flushes() const = 0;
  virtual abi::Outcome flush(void* comm, const RawPart& part, void** request) const = 0;
};

/// `table`: what the plugin exports as ncclCollNetPlugin_v<version>. Null for other versions.
std::shared_ptr<const CollNetCalls> collnet_calls(int version, const void* table);

}  // namespace tutti::plugin
