// Memory that collectives access directly.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "tutti/communicator.hpp"
#include "tutti/error.hpp"

namespace tutti::training {

/// Zeroed bytes in memory that other ranks on the host access without copies (ncclMemAlloc on a
/// host communicator). Resource, movable. A default-constructed Slab has no memory.
class Slab {
 public:
  Slab() = default;
  /// For collectives of `comm`. kUnavailable if memory is short; the error says how much was
  /// requested. kUnsupported if `comm` works on GPU memory.
  static Result<Slab> allocate(const Comm& comm, std::size_t bytes);
  ~Slab();
  Slab(Slab&& other) noexcept : data_(std::exchange(other.data_, {})) {}
  Slab& operator=(Slab&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  [[nodiscard]] std::span<std::byte> data() const { return data_; }

 private:
  explicit Slab(std::span<std::byte> data) : data_(data) {}
  std::span<std::byte> data_;
};

}  // namespace tutti::training
