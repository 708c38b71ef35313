// What the tests of this folder share: a gathering of ranks that are threads, and values in device
// memory.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "src/base/result.hpp"
#include "src/cuda/fake/client.hpp"
#include "src/transport/peer_memory.hpp"

namespace tutti::cuda_p2p {

// Before any thread, and after the client's own wish.
inline const int kAskedForFourDevices =
    ::setenv("FAKE_CUDA_DEVICES", "4", 1);  // NOLINT(concurrency-mt-unsafe)

inline constexpr std::array<std::byte, 32> kKey{std::byte{7}};
inline constexpr auto kPatience = std::chrono::seconds(20);

/// All-gathers of ranks that are threads.
class Gathering {
 public:
  explicit Gathering(std::size_t ranks) : coming_(ranks) {}

  Result<std::vector<Blob>> gather(Rank rank, std::span<const std::byte> mine, Deadline deadline) {
    std::unique_lock lock(mutex_);
    const std::uint64_t round = round_;
    coming_[rank].assign(mine.begin(), mine.end());
    if (++arrived_ == coming_.size()) {
      gathered_ = coming_;
      arrived_ = 0;
      ++round_;
      complete_.notify_all();
    }
    while (round_ == round)
      if (deadline.passed())
        return make_error(Code::kTimeout, "a rank did not come");
      else
        complete_.wait_for(lock, deadline.nap(std::chrono::milliseconds(100)));
    return gathered_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable complete_;
  std::vector<Blob> coming_;
  std::vector<Blob> gathered_;
  std::size_t arrived_ = 0;
  std::uint64_t round_ = 0;
};

/// Stores a word of device memory with a copy; false where the driver refuses.
inline bool put(const cuda::Driver& driver, std::byte* to, std::uint32_t value) {
  return driver.copy_async(to, &value, sizeof value, nullptr) && driver.synchronize(nullptr);
}

/// A word of device memory; one that nobody stores where it cannot be loaded.
inline std::uint32_t get(const cuda::Driver& driver, const std::byte* from) {
  std::uint32_t value = 0;
  const bool loaded =
      driver.copy_async(&value, from, sizeof value, nullptr) && driver.synchronize(nullptr);
  return loaded ? value : 0xdeadbeef;
}

/// What `writer` stores for `reader`, and where in the reader's area.
inline std::uint32_t word_for(Rank writer, Rank reader) {
  return static_cast<std::uint32_t>(1000 + writer * 100 + reader);
}
inline std::size_t place_of(Rank writer) { return static_cast<std::size_t>(writer) * 4; }

}  // namespace tutti::cuda_p2p
