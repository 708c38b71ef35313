// The kernels of one instruction set, and which sets this machine has. Private to this folder.
//
// Each kernels_<target>.cpp is compiled for its instruction set only. Its instructions must not
// leak into code that runs everywhere: the linker keeps one copy of an inline function, from any of
// the files that emit it. So those files include only Highway and this header, which has plain
// structs and no inline functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/reduce/reduce.hpp"

namespace tutti {

/// The arguments of reduce(), in the form that kernels take.
struct ReducePass {
  const Reduction* reduction;
  const std::byte* const* sources;
  std::size_t source_count;
  std::uint64_t scaled;
  const Destination* destinations;
  std::size_t destination_count;
  std::size_t count;  ///< elements, at least 1
};

using ReduceKernel = void (*)(const ReducePass& pass);
using CopyKernel = void (*)(const std::byte* source, const Destination* destinations,
                            std::size_t destination_count, std::size_t bytes);

struct KernelTable {
  const char* name;
  ReduceKernel reduce[kDataTypes][kReduceOps];
  CopyKernel copy;
};

extern const KernelTable kScalarKernels;    // kernels_scalar.cpp: the reference
extern const KernelTable kBaselineKernels;  // SSE4.2 (x86-64-v2), or NEON
extern const KernelTable kAvx2Kernels;      // x86-64-v3
extern const KernelTable kAvx512Kernels;    // x86-64-v4

/// The tables that this machine can run, slowest first; always contains the scalar one. Fills
/// `tables`, which has room for kMaxKernelTables, and returns their number.
std::size_t usable_kernels(const KernelTable** tables);
inline constexpr std::size_t kMaxKernelTables = 4;

}  // namespace tutti
