// Ranks of one process on the CUDA driver in memory.
#pragma once

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/exec/cuda/device_code.hpp"
#include "tests/cuda/gpu.hpp"
#include "tests/cuda/kernels.hpp"

namespace tutti::testing_cuda {

/// GPUs of the driver in memory.
inline constexpr int kGpus = 4;

/// Before anything else of this program looks for a CUDA driver: the fake is found by its soname.
inline const bool kFakeFirst = [] {
  setenv("TUTTI_DEVICE", "cuda", 1);
  setenv("TUTTI_CUDA_SLOT_BYTES", "64K", 1);  // so that little data has several steps
  setenv("FAKE_CUDA_DEVICES", std::to_string(kGpus).c_str(), 1);
  void* const driver_in_memory = ::dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  return driver_in_memory != nullptr && register_kernels(driver_in_memory);
}();

/// With the slots of 64 KiB: one step, and several.
inline constexpr std::size_t kFewElements = 1003, kSeveralSteps = 50'000;

/// Whether the library finds its kernels; without them calls pass through the host.
inline bool has_device_code() {
  return static_cast<bool>(exec::cuda::load_device_code(exec::cuda::device_code_path()));
}

/// How ranks are spread over GPUs.
enum class Gpus : std::uint8_t { kShared, kOwn };

/// Ranks that share GPU 0, or have one each; destroyed with the scope.
class Ranks {
 public:
  explicit Ranks(int n, Gpus gpus = Gpus::kShared) : comms(n) {
    for (int rank = 0; rank < n; ++rank) devices.push_back(gpus == Gpus::kOwn ? rank : 0);
    EXPECT_EQ(ncclCommInitAll(comms.data(), n, devices.data()), ncclSuccess)
        << ncclGetLastError(nullptr);
    for (const int device : devices) streams.push_back(std::make_unique<Stream>(device));
  }
  ~Ranks() {
    for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  }
  [[nodiscard]] int size() const { return static_cast<int>(comms.size()); }

  /// Calls `each(rank)` for all ranks: inside one group of this thread, or on a thread each.
  void run(bool threads, const std::function<void(int)>& each) const {
    if (!threads) {
      EXPECT_EQ(ncclGroupStart(), ncclSuccess);
      for (int rank = 0; rank < size(); ++rank) each(rank);
      EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
      return;
    }
    std::vector<std::jthread> running;
    for (int rank = 0; rank < size(); ++rank) running.emplace_back([&each, rank] { each(rank); });
  }

  std::vector<ncclComm_t> comms;
  std::vector<int> devices;
  std::vector<std::unique_ptr<Stream>> streams;
};

/// Element i of what a rank gives; differs between ranks and elements, and adds up exactly.
inline float input(int rank, std::size_t i) {
  return static_cast<float>(100 * (rank + 1) + static_cast<int>(i % 89));
}
inline std::vector<float> inputs(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = input(rank, i);
  return values;
}
inline float sum(int ranks, std::size_t i) {
  float total = 0;
  for (int rank = 0; rank < ranks; ++rank) total += input(rank, i);
  return total;
}

}  // namespace tutti::testing_cuda
