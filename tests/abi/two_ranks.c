/* A C program as NCCL's users write it, on CPU memory: two processes add up what they have.
 * against_nvidia compiles it with NVIDIA's header and runs it with Tutti's library. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl.h"

enum { kCount = 1000 };

#define CHECK(call)                                                              \
  do {                                                                           \
    if ((call) != ncclSuccess) {                                                 \
      fprintf(stderr, "rank %d: %s: %s\n", rank, #call, ncclGetLastError(NULL)); \
      return 1;                                                                  \
    }                                                                            \
  } while (0)

static int run_rank(int rank, ncclUniqueId id) {
  ncclComm_t comm;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  float data[kCount];
  int i, ranks = 0;
  config.blocking = 1;
  for (i = 0; i < kCount; ++i) data[i] = (float)(i + rank);
  CHECK(ncclCommInitRankConfig(&comm, 2, id, rank, &config));
  CHECK(ncclCommCount(comm, &ranks));
  CHECK(ncclAllReduce(data, data, kCount, ncclFloat, ncclSum, comm, NULL));
  CHECK(ncclCommDestroy(comm));
  for (i = 0; i < kCount; ++i) {
    if (ranks == 2 && data[i] == (float)(2 * i + 1)) continue;
    fprintf(stderr, "rank %d of %d: element %d is %g\n", rank, ranks, i, data[i]);
    return 1;
  }
  return 0;
}

int main(void) {
  ncclUniqueId id;
  const int rank = 0;
  int version = 0, ends[2], status = 1;
  if (pipe(ends) != 0) return 1;
  if (fork() == 0) {
    if (read(ends[0], &id, sizeof id) != (ssize_t)sizeof id) return 1;
    return run_rank(1, id);
  }
  CHECK(ncclGetVersion(&version));
  CHECK(ncclGetUniqueId(&id));
  if (write(ends[1], &id, sizeof id) != (ssize_t)sizeof id) return 1;
  if (run_rank(0, id) != 0) return 1;
  wait(&status);
  if (status == 0) printf("2 ranks added up, version %d\n", version);
  return status == 0 ? 0 : 1;
}
