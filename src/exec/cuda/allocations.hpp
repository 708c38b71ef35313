// Device memory that the program asked this library for (ncclMemAlloc).
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <variant>

#include "src/cuda/driver.hpp"
#include "tutti/error.hpp"

namespace tutti::exec::cuda {

/// Thread-safe. Resource.
class Allocations {
 public:
  explicit Allocations(tutti::cuda::SharedDriver driver) : driver_(std::move(driver)) {}

  /// Memory of the current device. If the device supports it, other processes can import the memory
  /// by a handle; otherwise it is like that of cudaMalloc. kUnavailable when memory is short.
  Result<void*> allocate(std::size_t bytes);
  /// The device must not use `data` any more. kInvalidArgument for what allocate() did not return.
  Status free(void* data);

 private:
  using Memory = std::variant<tutti::cuda::VmmAllocation, tutti::cuda::DeviceMemory>;
  Result<Memory> make(std::size_t bytes) const;

  const tutti::cuda::SharedDriver driver_;
  std::mutex mutex_;
  std::map<void*, Memory> live_;
};

}  // namespace tutti::exec::cuda
