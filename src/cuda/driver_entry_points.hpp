// Finds the entry points of a CUDA driver. Private to this folder.
#pragma once

#include "src/cuda/driver_abi.hpp"
#include "tutti/error.hpp"

namespace tutti::cuda {

/// Opens `library` for good and fills in the functions that it has. kUnsupported if it cannot be
/// opened or lacks an entry point that every driver since CUDA 10.1 has.
Result<abi::Functions> find_entry_points(const char* library);

}  // namespace tutti::cuda
