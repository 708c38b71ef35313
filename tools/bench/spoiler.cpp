// Preloaded by bench_program_test: an all-reduce that goes wrong on rank 1. Of floats, it gets one
// element wrong; of as many uint8, it does not survive.
#include <csignal>
#include <cstdlib>

#include <dlfcn.h>

#include "nccl.h"

namespace {

constexpr size_t kElement = 517;

/// The element of a sum becomes another finite number.
void spoil(void* result, size_t count) {
  if (count > kElement) static_cast<float*>(result)[kElement] += 0.5F;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) ncclResult_t
ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
              ncclComm_t comm, cudaStream_t stream) {
  using Function = decltype(&ncclAllReduce);
  const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "ncclAllReduce"));
  int rank = -1;
  ncclCommUserRank(comm, &rank);
  if (type == ncclUint8 && rank == 1 && count > kElement) ::raise(SIGKILL);
  const ncclResult_t result = real(send, recv, count, type, op, comm, stream);
  if (result == ncclSuccess && type == ncclFloat32 && rank == 1) spoil(recv, count);
  return result;
}
