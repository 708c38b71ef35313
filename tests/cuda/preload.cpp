// For LD_PRELOAD beside the CUDA driver in memory: programs that know nothing of it have kernels.
#include <dlfcn.h>

#include "tests/cuda/kernels.hpp"

namespace {

[[gnu::constructor]] void bring_kernels() {
  if (void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL))
    (void)tutti::testing_cuda::register_kernels(driver);
}

}  // namespace
