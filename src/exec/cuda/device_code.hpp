// The compiled kernels of src/device/kernels.cu, inside this library.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "tutti/types.hpp"

namespace tutti::exec::cuda {

/// A fatbin for cuModuleLoadData, with code for several architectures and PTX for later ones; it
/// lives as long as the process. Empty in a build without nvcc, and no code in one with sanitizers.
std::span<const std::byte> device_code();

/// Names in it: the kernel that runs images of this type (it takes a device::Launch), and the one
/// that combines local buffers (a device::LocalPass).
std::string interpret_kernel(DataType type);
std::string combine_kernel(DataType type);

}  // namespace tutti::exec::cuda
