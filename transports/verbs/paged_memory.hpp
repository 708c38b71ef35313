// Memory in pages of its own. Registered pages may be kept from a child of fork(), which must not
// miss what stands beside them.
#pragma once

#include <cerrno>
#include <cstddef>
#include <span>
#include <utility>

#include <sys/mman.h>

#include "src/base/result.hpp"

namespace tutti::verbs {

/// Resource; moves. Zero-filled at first.
class PagedMemory {
 public:
  static Result<PagedMemory> map(std::size_t bytes) {
    void* const memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      return system_error(Code::kUnavailable, errno, "mapping memory for an RDMA connection");
    return PagedMemory({static_cast<std::byte*>(memory), bytes});
  }
  PagedMemory() = default;
  PagedMemory(PagedMemory&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  PagedMemory& operator=(PagedMemory&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~PagedMemory() {
    if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
  }
  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  explicit PagedMemory(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
};

}  // namespace tutti::verbs
