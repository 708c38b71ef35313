// The abstraction below the device code: a block of threads that work together.
//
// A `Block` type offers
//   index(), count()   this block's index, and the number of blocks;
//   for_each(n, f)     f(0) .. f(n - 1), spread over the threads;
//   elect(f)           f() in one thread;
//   barrier()          whatever any thread did before it, all threads see after it;
//   any(b)             a barrier that also returns whether b was true in any thread.
// All threads of a block call these in the same order. CudaBlock is a thread block of a GPU.
// HostBlock is a few threads of this machine, most often one.
#pragma once

#include <cstdint>

#if !defined(__CUDACC__)
#include <atomic>
#endif

#include "src/base/device_macros.hpp"

namespace tutti::device {

#if defined(__CUDACC__)

/// Value. The thread block that runs this code.
class CudaBlock {
 public:
  TUTTI_DEVICE std::uint32_t index() const {
#if defined(__CUDA_ARCH__)
    return blockIdx.x;
#else
    return 0;
#endif
  }

  TUTTI_DEVICE std::uint32_t count() const {
#if defined(__CUDA_ARCH__)
    return gridDim.x;
#else
    return 1;
#endif
  }

  template <class F>
  TUTTI_DEVICE void for_each(std::uint64_t n, const F& f) const {
#if defined(__CUDA_ARCH__)
    for (std::uint64_t i = threadIdx.x; i < n; i += blockDim.x) f(i);
#endif
  }

  template <class F>
  TUTTI_DEVICE void elect(const F& f) const {
#if defined(__CUDA_ARCH__)
    if (threadIdx.x == 0) f();
#endif
  }

  TUTTI_DEVICE void barrier() const {
#if defined(__CUDA_ARCH__)
    __syncthreads();
#endif
  }

  TUTTI_DEVICE bool any(bool mine) const {
#if defined(__CUDA_ARCH__)
    return __syncthreads_or(mine ? 1 : 0) != 0;
#else
    return mine;
#endif
  }
};

#else

/// Resource: the barrier of a block's threads. All threads write its words.
class Rendezvous {
 public:
  explicit Rendezvous(std::uint32_t threads) : threads_(threads) {}
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  [[nodiscard]] std::uint32_t threads() const { return threads_; }

  /// Returns when all threads have arrived: whether any of them passed true.
  bool meet(bool mine) {
    if (threads_ == 1) return mine;
    const std::uint32_t round = round_.load(std::memory_order_relaxed);
    if (mine) any_[round % 2].store(true, std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      // All threads have read the result of round - 1; otherwise they would not be here.
      any_[(round + 1) % 2].store(false, std::memory_order_relaxed);
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      round_.notify_all();
    } else {
      round_.wait(round, std::memory_order_acquire);
    }
    return any_[round % 2].load(std::memory_order_relaxed);
  }

 private:
  std::uint32_t threads_;
  std::atomic<std::uint32_t> arrived_{0}, round_{0};
  std::atomic<bool> any_[2] = {false, false};
};

/// Value. One thread of a block on the host. `rendezvous` belongs to its block.
class HostBlock {
 public:
  HostBlock(std::uint32_t index, std::uint32_t count, std::uint32_t thread, Rendezvous& rendezvous)
      : index_(index), count_(count), thread_(thread), rendezvous_(&rendezvous) {}

  [[nodiscard]] std::uint32_t index() const { return index_; }
  [[nodiscard]] std::uint32_t count() const { return count_; }

  template <class F>
  void for_each(std::uint64_t n, const F& f) const {
    for (std::uint64_t i = thread_; i < n; i += rendezvous_->threads()) f(i);
  }
  template <class F>
  void elect(const F& f) const {
    if (thread_ == 0) f();
  }
  void barrier() const { (void)any(false); }
  [[nodiscard]] bool any(bool mine) const { return rendezvous_->meet(mine); }

 private:
  std::uint32_t index_, count_, thread_;
  Rendezvous* rendezvous_;
};

#endif

}  // namespace tutti::device
