// Address space to give back when none is left.
#pragma once

#include <cstddef>

#include <sys/mman.h>

namespace tutti {

/// A mapping that nothing uses. After release() the allocator of any thread can take its place:
/// where address space is short, malloc maps memory for each request instead of growing an arena,
/// so bytes freed into another thread's arena would not help. Resource.
class MemoryReserve {
 public:
  MemoryReserve()
      : memory_(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~MemoryReserve() { release(); }
  MemoryReserve(const MemoryReserve&) = delete;
  MemoryReserve& operator=(const MemoryReserve&) = delete;

  /// Has no effect the second time.
  void release() {
    if (memory_ != MAP_FAILED) ::munmap(memory_, kBytes);
    memory_ = MAP_FAILED;
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{512} << 10U;
  void* memory_;
};

}  // namespace tutti
