// Memory of this process that peers on the same host can map: one sealed memfd with an allocator.
//
// The segment's virtual size is about this machine's physical memory, so it never grows and peers
// map it once. Pages are backed only while allocated: allocation calls fallocate first, so a lack
// of memory is an error and never SIGBUS, and free punches holes. All bookkeeping is private to
// this process: nothing that a peer writes into the segment can confuse the allocator.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "src/base/fd.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Default heap size on a machine with this memory and this many CPUs. It is the memory size, or
/// less if the heaps of one rank per CPU would not fit: each rank maps the heaps of all. Heaps may
/// take half of a process's 47-bit address space.
std::size_t default_heap_bytes(std::size_t memory_bytes, int cpus);

/// Is told of a heap's allocations, by the thread that makes them. Thread-safe.
class HeapWatcher {
 public:
  virtual ~HeapWatcher() = default;
  virtual void allocated(std::span<std::byte> memory) = 0;
  /// The pages of the allocation at `data` are about to go, or to be replaced.
  virtual void ends(const std::byte* data) = 0;
};

/// Resource. Thread-safe.
class SharedHeap {
 public:
  /// `virtual_bytes` 0: default_heap_bytes of this machine, halved until the address space has room
  /// for it.
  static Result<std::unique_ptr<SharedHeap>> create(std::size_t virtual_bytes = 0);
  ~SharedHeap();
  SharedHeap(const SharedHeap&) = delete;
  SharedHeap& operator=(const SharedHeap&) = delete;

  /// Before the first allocation.
  void watch_by(std::unique_ptr<HeapWatcher> watcher) { watcher_ = std::move(watcher); }

  /// Whether somebody registers what is allocated here.
  [[nodiscard]] bool is_watched() const { return watcher_ != nullptr; }

  /// Zero-filled, page-aligned and backed. kUnavailable when memory is short.
  Result<std::span<std::byte>> allocate(std::size_t bytes);
  /// Gives the pages back. `data` must come from allocate, else kInvalidArgument.
  Status free(const void* data);

  /// Replaces the pages of `memory` by private ones with the same contents, so later writes of
  /// peers have no effect here. `memory` lies in one live allocation, or not in this heap at all.
  /// The heap never reuses that allocation's space. No other thread may write to it meanwhile.
  Status detach(std::span<std::byte> memory);
  /// Whether [data, data+bytes) belongs to the heap and peers see the same memory.
  [[nodiscard]] bool is_shared(const std::byte* data, std::size_t bytes) const;

  /// Offset of [data, data+bytes) if it lies inside one live allocation.
  [[nodiscard]] std::optional<std::uint64_t> offset_of(const void* data, std::size_t bytes) const;

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] std::span<std::byte> mapping() const { return mapping_; }
  [[nodiscard]] std::size_t allocated_bytes() const;

 private:
  SharedHeap(Fd fd, std::span<std::byte> mapping);
  Fd fd_;
  std::span<std::byte> mapping_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> live_;      // offset -> bytes
  std::map<std::uint64_t, std::uint64_t> holes_;     // offset -> bytes
  std::map<std::uint64_t, std::uint64_t> detached_;  // offset -> bytes, in pages
  std::atomic<bool> any_detached_ = false;
  std::unique_ptr<HeapWatcher> watcher_;  // or null
};

/// Maps the pages of `memory` at once, if the system can, so that first touches do not take a fault
/// each: a call that used 100 KiB of untouched memory took 40 us instead of 9.
void map_pages(std::span<std::byte> memory);

/// Maps a peer's heap from its descriptor, after checking seals and size.
class PeerMapping {
 public:
  static Result<std::unique_ptr<PeerMapping>> map(Fd fd, std::size_t bytes);
  ~PeerMapping();
  PeerMapping(const PeerMapping&) = delete;
  PeerMapping& operator=(const PeerMapping&) = delete;
  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  explicit PeerMapping(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
};

}  // namespace tutti
