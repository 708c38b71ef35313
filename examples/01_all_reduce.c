/* All-reduce in one process, in C: four ranks, driven by one thread through groups.
 *
 *   cc 01_all_reduce.c -lnccl && ./a.out
 */
#include <stdio.h>
#include <stdlib.h>

#include "nccl.h"

#define RANKS 4
#define COUNT 1000

static void check(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  fprintf(stderr, "%s: %s\n%s\n", call, ncclGetErrorString(result), ncclGetLastError(NULL));
  exit(1);
}
#define CHECK(call) check(call, #call)

int main(void) {
  static float send[RANKS][COUNT], recv[RANKS][COUNT];
  ncclComm_t comms[RANKS];
  int rank, i, wrong = 0;

  CHECK(ncclCommInitAll(comms, RANKS, NULL));
  for (rank = 0; rank < RANKS; ++rank) {
    for (i = 0; i < COUNT; ++i) send[rank][i] = (float)(rank + i);
  }

  /* Ranks wait for each other, so one thread starts all of them before it waits for any. */
  CHECK(ncclGroupStart());
  for (rank = 0; rank < RANKS; ++rank) {
    CHECK(ncclAllReduce(send[rank], recv[rank], COUNT, ncclFloat, ncclSum, comms[rank], NULL));
  }
  CHECK(ncclGroupEnd());

  for (rank = 0; rank < RANKS; ++rank) {
    for (i = 0; i < COUNT; ++i) {
      wrong += recv[rank][i] != (float)(RANKS * i + RANKS * (RANKS - 1) / 2);
    }
    CHECK(ncclCommDestroy(comms[rank]));
  }
  printf("%d ranks, %d elements, %d wrong\n", RANKS, RANKS * COUNT, wrong);
  return wrong == 0 ? 0 : 1;
}
