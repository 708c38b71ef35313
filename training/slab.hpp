// Memory that collectives reach where it lies.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "tutti/communicator.hpp"
#include "tutti/error.hpp"

namespace tutti::training {

/// Bytes, zero at first, in memory that other ranks of the host reach without copies (ncclMemAlloc
/// on a host communicator). Resource, movable; without memory when default-constructed.
class Slab {
 public:
  Slab() = default;
  /// For collectives of `comm`. kUnavailable where memory is short: says how much was asked for.
  /// kUnsupported where `comm` works on memory of GPUs.
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
