// What holds for the whole process: threads and memory of the libraries that compute.
#include <limits>

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <malloc.h>

#include "training/torch/distributed.hpp"

namespace tutti::training {

void set_compute_threads(int threads) {
  at::set_num_threads(threads);
  // Only where OpenBLAS is what this process computes with.
  using SetThreads = void (*)(int);
  if (auto* const set = dlsym(RTLD_DEFAULT, "openblas_set_num_threads"); set != nullptr) {
    reinterpret_cast<SetThreads>(set)(threads);
  }
}

void keep_freed_memory() {
  constexpr int kNever = std::numeric_limits<int>::max();
  (void)mallopt(M_MMAP_THRESHOLD, kNever);
  (void)mallopt(M_TRIM_THRESHOLD, kNever);
}

}  // namespace tutti::training
