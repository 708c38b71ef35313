// The kernels: what a launch starts on a GPU. Each is a thread block's view of the code beside it,
// for one type: tutti_interpret_float, tutti_combine_float and so on, by the names of types.hpp.
#include <cstdint>

#include "src/base/float_formats.hpp"
#include "src/device/arithmetic.hpp"
#include "src/device/block.hpp"
#include "src/device/interpret.hpp"
#include "src/device/kernels.hpp"

namespace tutti::device {
namespace {

template <class E>
__device__ void interpret(const Launch& launch) {
  __shared__ Workspace workspace;
  const CudaBlock block;
  Interpreter<CudaBlock, Dutiful, OneType<E>>(block, workspace, launch).run();
}

template <class E>
__device__ void combine_locally(const LocalPass& pass) {
  __shared__ Operands operands;
  const CudaBlock block;
  run_local_pass<OneType<E>>(block, operands, pass);
}

}  // namespace

// interpret: runs one rank's program, in any protocol. Grid: as many blocks as the image says, all
// of them resident together with those of the peers.
//
// combine: combines buffers that this GPU reaches, and waits for nobody. Any grid.
#define TUTTI_KERNELS(name, E)                                        \
  extern "C" __global__ void __launch_bounds__(kThreadsPerBlock, 1)   \
      tutti_interpret_##name(const __grid_constant__ Launch launch) { \
    interpret<E>(launch);                                             \
  }                                                                   \
  extern "C" __global__ void __launch_bounds__(kThreadsPerBlock, 1)   \
      tutti_combine_##name(const __grid_constant__ LocalPass pass) {  \
    combine_locally<E>(pass);                                         \
  }

TUTTI_KERNELS(int8, Plain<std::int8_t>)
TUTTI_KERNELS(uint8, Plain<std::uint8_t>)
TUTTI_KERNELS(int32, Plain<std::int32_t>)
TUTTI_KERNELS(uint32, Plain<std::uint32_t>)
TUTTI_KERNELS(int64, Plain<std::int64_t>)
TUTTI_KERNELS(uint64, Plain<std::uint64_t>)
TUTTI_KERNELS(half, Narrow<Float16>)
TUTTI_KERNELS(float, Plain<float>)
TUTTI_KERNELS(double, Plain<double>)
TUTTI_KERNELS(bfloat16, Narrow<Bfloat16>)
TUTTI_KERNELS(f8e4m3, Narrow<Float8e4m3>)
TUTTI_KERNELS(f8e5m2, Narrow<Float8e5m2>)

}  // namespace tutti::device
