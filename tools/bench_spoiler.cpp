// Preloaded by bench_program_test: an all-reduce of floats that gets one element wrong on one rank.
#include <cstdlib>

#include <dlfcn.h>

#include "nccl.h"

namespace {

/// Element 517 of a sum becomes another finite number.
void spoil(void* result, size_t count) {
  constexpr size_t kElement = 517;
  if (count > kElement) static_cast<float*>(result)[kElement] += 0.5F;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) ncclResult_t
ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
              ncclComm_t comm, cudaStream_t stream) {
  using Function = decltype(&ncclAllReduce);
  const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "ncclAllReduce"));
  const ncclResult_t result = real(send, recv, count, type, op, comm, stream);
  int rank = -1;
  ncclCommUserRank(comm, &rank);
  if (result == ncclSuccess && type == ncclFloat32 && rank == 1) spoil(recv, count);
  return result;
}
