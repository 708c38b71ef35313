// The compiled kernels of src/device/kernels.cu. They are a file beside the library, so that
// neither the build nor the start of a program without GPUs waits for them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::exec::cuda {

inline constexpr std::string_view kDeviceCodeFile = "libtutti_device.fatbin";

/// Where to find the file: in the folder of the library or program that holds this function, or in
/// ../lib from there. Returns the first place where it exists, or else the first of both.
std::string device_code_path();

/// A fatbin for cuModuleLoadData, with code for several architectures and PTX for later ones.
/// kUnavailable: the file cannot be read. kInvalidArgument: it is no device code, or that of other
/// sources than this library's. A build with sanitizers has kernels on the driver in memory alone:
/// there a byte stands for them.
Result<std::vector<std::byte>> load_device_code(const std::string& path);

/// Names in it: the kernel that runs images of this type (it takes a device::Launch), and the one
/// that combines local buffers (a device::LocalPass).
std::string interpret_kernel(DataType type);
std::string combine_kernel(DataType type);

}  // namespace tutti::exec::cuda
