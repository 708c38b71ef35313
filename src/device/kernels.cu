// The kernels: what a launch starts on a GPU. Each is a thread block's view of the code beside it.
#include "src/device/block.hpp"
#include "src/device/combine.hpp"
#include "src/device/interpret.hpp"
#include "src/device/kernels.hpp"
#include "src/device/share.hpp"

namespace tutti::device {

/// Runs one rank's program, in any protocol. Grid: as many blocks as the image says, all of which
/// must be resident together with those of the peers.
extern "C" __global__ void __launch_bounds__(kThreadsPerBlock)
    tutti_interpret(const __grid_constant__ Launch launch) {
  __shared__ Workspace workspace;
  const CudaBlock block;
  Interpreter<CudaBlock>(block, workspace, launch).run();
}

/// Combines buffers that this GPU reaches, waiting for nobody. Any grid.
extern "C" __global__ void __launch_bounds__(kThreadsPerBlock)
    tutti_combine(const __grid_constant__ LocalPass pass) {
  __shared__ Operands operands;
  const CudaBlock block;
  run_local_pass(block, operands, pass);
}

}  // namespace tutti::device
