// Loads the kernels of this library onto devices, and launches them.
#pragma once

#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "src/cuda/driver.hpp"
#include "src/device/program.hpp"
#include "src/exec/cuda/local_passes.hpp"
#include "src/reduce/reduce.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::exec::cuda {

/// Buffers of ranks, by rank, on one device.
struct RankBuffers {
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
};

/// One per process. Thread-safe. Resource.
class Kernels {
 public:
  /// If `code` is empty, there are no kernels.
  Kernels(tutti::cuda::SharedDriver driver, std::vector<std::byte> code)
      : driver_(std::move(driver)), code_(std::move(code)) {}

  [[nodiscard]] bool available() const { return !code_.empty(); }

  /// Loads all kernels onto `device`, whose context is current. Loading one later may wait for the
  /// device's work.
  Status prepare(int device);
  /// Enqueues a pass; the context of `device` is current. `reduction` is as for reduce(); a pass
  /// that completes divides by its divisor.
  Status combine(int device, tutti::cuda::abi::Stream stream, const Reduction& reduction,
                 const LocalPassPlaces& pass, const RankBuffers& buffers);
  /// Enqueues one rank's call: runs an image of this type with this many blocks. The context of
  /// `device` is current.
  Status interpret(int device, tutti::cuda::abi::Stream stream, DataType type, unsigned blocks,
                   const device::Launch& launch);

 private:
  /// The kernels of a type on a device, and how many blocks of combine fill the device.
  struct Loaded {
    tutti::cuda::abi::Function combine = nullptr, interpret = nullptr;
    unsigned blocks = 0;
  };
  Result<Loaded> load(int device, DataType type);

  const tutti::cuda::SharedDriver driver_;
  const std::vector<std::byte> code_;
  std::mutex mutex_;
  std::map<int, tutti::cuda::Module> modules_;
  std::map<std::pair<int, DataType>, Loaded> loaded_;
};

}  // namespace tutti::exec::cuda
