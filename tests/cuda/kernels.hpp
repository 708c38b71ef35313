// The library's kernels on the CUDA driver in memory: the same source as the GPU's, each block a
// thread of the host.
#pragma once

namespace tutti::testing_cuda {

/// Lets modules have them. `fake_cuda`: the library of the driver in memory, as dlopen returns it.
/// False where that has no such function.
bool register_kernels(void* fake_cuda);

}  // namespace tutti::testing_cuda
