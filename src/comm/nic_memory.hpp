// Memory of GPUs that NICs read and write by themselves (GPUDirect RDMA).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "src/cuda/driver.hpp"
#include "src/transport/transport.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// What is registered, by address. One per process. Resource; thread-safe.
class NicMemory {
 public:
  /// `transport` has caps().device_memory.
  NicMemory(cuda::SharedDriver driver, std::shared_ptr<Transport> transport)
      : driver_(std::move(driver)), transport_(std::move(transport)) {}

  /// Why memory of `device` cannot be registered; "": it can. The first time it is tried with a
  /// page, which stays allocated: to free it would wait for all streams. The log tells what came
  /// of it.
  const std::string& problem_with(int device);
  /// Registers the allocation that holds `memory`, until the result is destroyed, which has to be
  /// before the memory is freed. Nobody but callers of this holds on to it. kUnsupported for memory
  /// that is not a GPU's, or not of one allocation. kUnavailable where no more can be registered.
  Result<std::shared_ptr<const void>> add(std::span<std::byte> memory);
  /// add(), until drop(): for memory of this library's own. What cannot be registered is left as it
  /// is, and the log says why.
  void keep(std::span<std::byte> memory);
  void drop(const void* data);
  /// Whether all of this is registered, by one call of add(). Calls that use it then must be over
  /// before that ends.
  [[nodiscard]] bool holds(const void* data, std::size_t bytes) const;

 private:
  struct Piece {
    std::size_t bytes = 0;
    std::weak_ptr<const void> registration;
  };
  Result<DeviceRegistration> register_range(std::span<std::byte> memory, int device);
  Result<std::string> try_page(int device);

  const cuda::SharedDriver driver_;
  const std::shared_ptr<Transport> transport_;
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, Piece> pieces_;  ///< by first address
  std::map<const void*, std::shared_ptr<const void>> kept_;
  std::map<int, std::string> problems_;  ///< by device
  std::map<int, cuda::DeviceMemory> pages_;
};

}  // namespace tutti
