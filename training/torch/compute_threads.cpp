// set_compute_threads(): a thread pool of each of the libraries that have one.
#include <ATen/Parallel.h>
#include <dlfcn.h>

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

}  // namespace tutti::training
