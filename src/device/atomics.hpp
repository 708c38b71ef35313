// Words that ranks share: acquiring loads and releasing stores with system-wide scope.
//
// Order comes from these accesses only. There are no fences, which the thread sanitizer could not
// follow. To publish what all threads of a block stored: a barrier, then one releasing store. To
// receive it: an acquiring load in one thread, then a barrier.
#pragma once

#include <cstdint>

#include "src/base/device_macros.hpp"

#if defined(__CUDACC__)
#include <cuda/atomic>
#else
#include <atomic>
#endif

namespace tutti::device {

#if defined(__CUDACC__)
template <class T>
using AtomicRef = cuda::atomic_ref<T, cuda::thread_scope_system>;
inline constexpr auto kAcquire = cuda::memory_order_acquire;
inline constexpr auto kRelease = cuda::memory_order_release;
inline constexpr auto kRelaxed = cuda::memory_order_relaxed;
#else
template <class T>
using AtomicRef = std::atomic_ref<T>;
inline constexpr auto kAcquire = std::memory_order_acquire;
inline constexpr auto kRelease = std::memory_order_release;
inline constexpr auto kRelaxed = std::memory_order_relaxed;
#endif

template <class T>
TUTTI_DEVICE inline T load_acquire(T* word) {
  return AtomicRef<T>(*word).load(kAcquire);
}

template <class T>
TUTTI_DEVICE inline void store_release(T* word, T value) {
  AtomicRef<T>(*word).store(value, kRelease);
}

}  // namespace tutti::device
