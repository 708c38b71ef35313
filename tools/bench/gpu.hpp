// Memory, streams and copies on the GPUs of a crew. Uses only the CUDA driver, so one program
// measures with and without GPUs.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "src/cuda/driver.hpp"
#include "tutti/error.hpp"

namespace tutti::bench {

/// Which GPU each of `ranks` ranks of this process uses, the first being the process's `first`:
/// ranks of a host take turns at the GPUs that there are. The launcher's environment says where on
/// its host a process is.
std::vector<int> gpus_of(int first, int ranks, int ranks_of_process, int gpus);

/// Of one crew. Used by its thread. Resource.
class Gpus {
 public:
  /// `devices`: of each rank.
  static Result<Gpus> open(cuda::SharedDriver driver, std::vector<int> devices);

  [[nodiscard]] std::size_t ranks() const { return devices_.size(); }
  /// Makes the GPU of rank `i` of the crew the thread's.
  Result<cuda::ContextScope> use(std::size_t i) const { return driver_->make_current(devices_[i]); }
  [[nodiscard]] cuda::abi::Stream stream(std::size_t i) const { return streams_[i].get(); }

  Result<cuda::DeviceFacts> facts(std::size_t i) const { return driver_->device(devices_[i]); }
  Result<cuda::DeviceMemory> allocate(std::size_t i, std::size_t bytes) const {
    return cuda::DeviceMemory::allocate(driver_, devices_[i], bytes);
  }
  /// Both return when it is done.
  Status upload(std::size_t i, std::byte* to, std::span<const std::byte> from) const;
  Status download(std::size_t i, std::span<std::byte> to, const std::byte* from) const;
  /// Waits for all that the ranks' streams have to do.
  Status synchronize() const;

 private:
  Gpus(cuda::SharedDriver driver, std::vector<int> devices)
      : driver_(std::move(driver)), devices_(std::move(devices)) {}

  cuda::SharedDriver driver_;
  std::vector<int> devices_;
  std::vector<cuda::OwnedStream> streams_;
};

}  // namespace tutti::bench
