// What the tests of this folder share: devices, and values in their memory.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "src/cuda/fake/client.hpp"
#include "tutti/types.hpp"

namespace tutti::cuda_p2p {

// Runs before any thread starts, and replaces the client's own number.
inline const int kAskedForFourDevices =
    ::setenv("FAKE_CUDA_DEVICES", "4", 1);  // NOLINT(concurrency-mt-unsafe)

inline constexpr std::array<std::byte, 32> kKey{std::byte{7}};
inline constexpr auto kPatience = std::chrono::seconds(20);

/// Stores a word of device memory with a copy; false if the driver refuses.
inline bool put(const cuda::Driver& driver, std::byte* to, std::uint32_t value) {
  return driver.copy_async(to, &value, sizeof value, nullptr) && driver.synchronize(nullptr);
}

/// Loads a word of device memory. If that fails, returns a word that no rank stores.
inline std::uint32_t get(const cuda::Driver& driver, const std::byte* from) {
  std::uint32_t value = 0;
  const bool loaded =
      driver.copy_async(&value, from, sizeof value, nullptr) && driver.synchronize(nullptr);
  return loaded ? value : 0xdeadbeef;
}

/// The word that `writer` stores for `reader`.
inline std::uint32_t word_for(Rank writer, Rank reader) {
  return static_cast<std::uint32_t>(1000 + writer * 100 + reader);
}
inline std::size_t place_of(Rank writer) { return static_cast<std::size_t>(writer) * 4; }

}  // namespace tutti::cuda_p2p
