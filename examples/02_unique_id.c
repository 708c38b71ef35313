/* All-reduce between processes, in C: the program itself hands the unique id around. Here it forks
 * before the first call and uses pipes; MPI programs broadcast it instead.
 *
 *   cc 02_unique_id.c -lnccl && ./a.out
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl.h"

#define RANKS 3

static void check(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  fprintf(stderr, "%s: %s\n%s\n", call, ncclGetErrorString(result), ncclGetLastError(NULL));
  exit(1);
}
#define CHECK(call) check(call, #call)

static int run_rank(int rank, ncclUniqueId id) {
  ncclComm_t comm;
  int value = rank + 1, sum = 0;
  CHECK(ncclCommInitRank(&comm, RANKS, id, rank));
  CHECK(ncclAllReduce(&value, &sum, 1, ncclInt, ncclSum, comm, NULL));
  CHECK(ncclCommDestroy(comm));
  printf("rank %d: %d\n", rank, sum);
  fflush(stdout);
  return sum == RANKS * (RANKS + 1) / 2 ? 0 : 1;
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
  CHECK(ncclGetUniqueId(&id)); /* after the forks: threads do not survive them */
  for (rank = 1; rank < RANKS; ++rank) {
    if (write(pipes[rank][1], &id, sizeof id) != sizeof id) return 1;
  }
  failures += run_rank(0, id);
  while (wait(&status) > 0) failures += status != 0;
  return failures == 0 ? 0 : 1;
}
