/* One rank of a job that a launcher started: adds up on ordinary memory of the host, until told to
 * stop. usage: cuda_rank CALLS [RANK THAT DIES HALFWAY]. Exit 6 when a peer failed. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "nccl.h"
#include "tutti/tutti.h"

static int fail(ncclComm_t comm, const char* what, ncclResult_t result) {
  fprintf(stderr, "%s: %s: %s\n", what, ncclGetErrorString(result), ncclGetLastError(comm));
  return result == ncclRemoteError ? 6 : 1;
}

int main(int argc, char** argv) {
  const int calls = argc > 1 ? atoi(argv[1]) : 1;
  const int dies = argc > 2 ? atoi(argv[2]) : -1;
  ncclComm_t comm = NULL;
  ncclResult_t result = tuttiCommInitFromEnvironment(&comm, NULL, 0);
  if (result != ncclSuccess) return fail(NULL, "init", result);
  int rank = -1, ranks = 0, device = -1;
  ncclCommUserRank(comm, &rank);
  ncclCommCount(comm, &ranks);
  ncclCommCuDevice(comm, &device);
  for (int call = 0; call < calls; ++call) {
    if (rank == dies && call == calls / 2) raise(SIGKILL);
    float mine = (float)(rank + call), sum = -1;
    result = ncclAllReduce(&mine, &sum, 1, ncclFloat, ncclSum, comm, NULL);
    ncclResult_t state = ncclSuccess;
    if (result == ncclSuccess) ncclCommGetAsyncError(comm, &state);
    if (result == ncclSuccess) result = state;
    if (result != ncclSuccess) {
      const int code = fail(comm, "ncclAllReduce", result);
      ncclCommAbort(comm);
      return code;
    }
    if (sum != (float)(ranks * (ranks - 1) / 2 + ranks * call)) {
      fprintf(stderr, "call %d: the sum is %g\n", call, sum);
      return 3;
    }
  }
  printf("rank %d of %d on device %d: %d sums are right\n", rank, ranks, device, calls);
  return ncclCommDestroy(comm) == ncclSuccess ? 0 : 1;
}
