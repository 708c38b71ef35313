/* One rank of a job that a launcher started: adds up until told to stop. Exit 6 when a peer failed.
 *
 * usage: cuda_rank CALLS [RANK THAT DIES HALFWAY [device [late]]]
 * On ordinary memory of the host, which is checked; with `device`, on memory of the rank's GPU,
 * which is not, and calls that only the library waits for. With `late` the rank makes no more calls
 * instead of dying.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "nccl.h"
#include "tutti/tutti.h"

static int fail(ncclComm_t comm, const char* what, ncclResult_t result) {
  fprintf(stderr, "%s: %s: %s\n", what, ncclGetErrorString(result), ncclGetLastError(comm));
  return result == ncclRemoteError ? 6 : 1;
}

/* What cudaSetDevice does: the GPU whose number is this rank's. */
static int use_gpu_of_rank(void) {
  const char* const rank = getenv("RANK");
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (rank == NULL || driver == NULL) return 0;
  int (*const retain)(void**, int) =
      (int (*)(void**, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
  int (*const set)(void*) = (int (*)(void*))dlsym(driver, "cuCtxSetCurrent");
  void* context = NULL;
  return ((int (*)(unsigned))dlsym(driver, "cuInit"))(0) == 0 &&
         retain(&context, atoi(rank)) == 0 && set(context) == 0;
}

/* The error that ends the communicator, which is sure to come. */
static ncclResult_t await_error(ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  const struct timespec millisecond = {0, 1000000};
  for (const time_t end = time(NULL) + 30; state == ncclSuccess && time(NULL) < end;) {
    ncclCommGetAsyncError(comm, &state);
    nanosleep(&millisecond, NULL);
  }
  return state;
}

int main(int argc, char** argv) {
  const int calls = argc > 1 ? atoi(argv[1]) : 1;
  const int dies = argc > 2 ? atoi(argv[2]) : -1;
  const int on_device = argc > 3, is_late = argc > 4;
  ncclComm_t comm = NULL;
  if (on_device && !use_gpu_of_rank()) return fail(NULL, "no GPU", ncclSystemError);
  ncclResult_t result = tuttiCommInitFromEnvironment(&comm, NULL, 0);
  if (result != ncclSuccess) return fail(NULL, "init", result);
  int rank = -1, ranks = 0, device = -1;
  ncclCommUserRank(comm, &rank);
  ncclCommCount(comm, &ranks);
  ncclCommCuDevice(comm, &device);
  float mine = 0, sum = -1;
  void *input = &mine, *output = &sum;
  if (on_device && (ncclMemAlloc(&input, sizeof mine) != ncclSuccess ||
                    ncclMemAlloc(&output, sizeof sum) != ncclSuccess))
    return fail(comm, "ncclMemAlloc", ncclSystemError);
  for (int call = 0; call < calls; ++call) {
    if (rank == dies && call == calls / 2 && is_late) break;
    if (rank == dies && call == calls / 2) raise(SIGKILL);
    mine = (float)(rank + call);
    result = ncclAllReduce(input, output, 1, ncclFloat, ncclSum, comm, NULL);
    ncclResult_t state = ncclSuccess;
    if (result == ncclSuccess) ncclCommGetAsyncError(comm, &state);
    if (result == ncclSuccess) result = state;
    if (result == ncclSuccess && on_device && call + 1 == calls) result = await_error(comm);
    if (result != ncclSuccess) {
      const int code = fail(comm, "ncclAllReduce", result);
      ncclCommAbort(comm);
      return code;
    }
    if (!on_device && sum != (float)(ranks * (ranks - 1) / 2 + ranks * call)) {
      fprintf(stderr, "call %d: the sum is %g\n", call, sum);
      return 3;
    }
  }
  if (on_device) {
    const int code = fail(comm, "the others", await_error(comm));
    ncclCommAbort(comm);
    return code;
  }
  printf("rank %d of %d on device %d: %d sums are right\n", rank, ranks, device, calls);
  return ncclCommDestroy(comm) == ncclSuccess ? 0 : 1;
}
