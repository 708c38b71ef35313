/* Going on after a failure: rank 1 dies, the others get an error that names it, shrink to the
 * survivors and compute on.
 *
 *   cc 05_survive.c -lnccl && ./a.out
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl.h"

#define RANKS 3
#define VICTIM 1
#define COUNT 100000

static void check(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  fprintf(stderr, "%s: %s\n%s\n", call, ncclGetErrorString(result), ncclGetLastError(NULL));
  exit(1);
}
#define CHECK(call) check(call, #call)

static int run_rank(int rank, ncclUniqueId id) {
  static float data[COUNT];
  ncclComm_t comm, survivors;
  ncclResult_t result = ncclSuccess;
  int excluded = VICTIM, one = 1, sum = 0;

  CHECK(ncclCommInitRank(&comm, RANKS, id, rank));
  do {
    result = ncclAllReduce(data, data, COUNT, ncclFloat, ncclSum, comm, NULL);
    if (rank == VICTIM) raise(SIGKILL);
  } while (result == ncclSuccess);
  printf("rank %d: %s\n", rank, ncclGetLastError(comm));
  if (result != ncclRemoteError) return 1;

  CHECK(ncclCommShrink(comm, &excluded, 1, &survivors, NULL, NCCL_SHRINK_ABORT));
  CHECK(ncclCommAbort(comm));
  CHECK(ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, survivors, NULL));
  CHECK(ncclCommDestroy(survivors));
  printf("rank %d: %d survivors\n", rank, sum);
  fflush(stdout);
  return sum == RANKS - 1 ? 0 : 1;
}

int main(void) {
  int pipes[RANKS][2], rank, status, failures = 0;
  ncclUniqueId id;

  for (rank = 1; rank < RANKS; ++rank) {
    if (pipe(pipes[rank]) != 0) return 1;
    if (fork() == 0) {
      if (read(pipes[rank][0], &id, sizeof id) != sizeof id) _exit(1);
      _exit(run_rank(rank, id));
    }
  }
  CHECK(ncclGetUniqueId(&id));
  for (rank = 1; rank < RANKS; ++rank) {
    if (write(pipes[rank][1], &id, sizeof id) != sizeof id) return 1;
  }
  failures += run_rank(0, id);
  while (wait(&status) > 0) {
    const int killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    failures += !killed && status != 0;
  }
  return failures == 0 ? 0 : 1;
}
