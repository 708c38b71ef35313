/* One rank that makes its unique ids itself, as NCCL_COMM_ID allows: RANK and WORLD_SIZE say which.
 * Two communicators beside each other, then a third; each adds up the ranks. */
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                               \
  do {                                                            \
    if ((call) != ncclSuccess) {                                  \
      fprintf(stderr, "%s: %s\n", #call, ncclGetLastError(NULL)); \
      return 1;                                                   \
    }                                                             \
  } while (0)

static int join(int rank, int ranks, ncclComm_t* comm) {
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id));
  CHECK(ncclCommInitRank(comm, ranks, id, rank));
  return 0;
}

static int add_up(int rank, int ranks, ncclComm_t comm) {
  float sum = (float)rank;
  CHECK(ncclAllReduce(&sum, &sum, 1, ncclFloat, ncclSum, comm, NULL));
  return sum == (float)(ranks * (ranks - 1) / 2) ? 0 : 3;
}

int main(void) {
  const int rank = atoi(getenv("RANK")), ranks = atoi(getenv("WORLD_SIZE"));
  ncclComm_t first, second, third;
  if (join(rank, ranks, &first) || join(rank, ranks, &second)) return 1;
  if (add_up(rank, ranks, second) || add_up(rank, ranks, first)) return 1;
  CHECK(ncclCommDestroy(first));
  CHECK(ncclCommDestroy(second));
  if (join(rank, ranks, &third) || add_up(rank, ranks, third)) return 1;
  CHECK(ncclCommDestroy(third));
  printf("met: rank %d of %d through NCCL_COMM_ID\n", rank, ranks);
  return 0;
}
