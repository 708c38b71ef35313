// Makes what a device has written to memory of a GPU visible to kernels.
//
// A read of a device does not overtake its earlier writes (PCI Express base specification, 2.4.1).
// So the device reads one byte of that memory: a queue pair that is connected to itself writes the
// byte to memory of the host. An RDMA read would do the same, but needs memory that whoever has its
// key may read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "src/verbs/device.hpp"
#include "transports/verbs/paged_memory.hpp"
#include "transports/verbs/rails.hpp"
#include "tutti/error.hpp"

namespace tutti::verbs {

/// The way from a queue pair on `rail` to `pair`, which is on the same one.
PeerPath way_to(const QueuePair& pair, const Rail& rail);

/// Resource. One thread at a time.
class Flusher {
 public:
  /// Reads that are under way at most, and so completions.
  static constexpr std::uint32_t kMost = 32;

  /// `completions` outlives it, and has room for kMost more.
  static Result<std::unique_ptr<Flusher>> create(Device& device, CompletionQueue& completions,
                                                 const Rail& rail);
  [[nodiscard]] std::uint32_t number() const { return pair_.number(); }
  [[nodiscard]] bool has_room() const { return under_way_ < kMost; }
  /// The device reads the byte at `at`, which `local_key` names. Its completion has the id
  /// `ticket`, in the order of these calls.
  Status read(const std::byte* at, std::uint32_t local_key, std::uint64_t ticket);
  /// A completion of number() has come. An error is the end of this flusher.
  Status take(const ibv_wc& completion);

 private:
  Flusher(QueuePair pair, PagedMemory memory, MemoryRegion region)
      : memory_(std::move(memory)), region_(std::move(region)), pair_(std::move(pair)) {}

  PagedMemory memory_;
  MemoryRegion region_;
  QueuePair pair_;
  std::uint32_t under_way_ = 0;
};

}  // namespace tutti::verbs
