/* Tutti's C API beyond NCCL's: what libtutti.so exports.
 *
 * NCCL's functions are here too, under other names: tuttiNcclAllReduce is ncclAllReduce of
 * libnccl.so.2, and so on. A program that does not want NCCL's names links libtutti.so alone.
 * tutti/nccl.h defines types, constants and contracts. Any thread may call any function, except
 * where NCCL allows a communicator only one thread at a time.
 */
#ifndef TUTTI_TUTTI_H_
#define TUTTI_TUTTI_H_

#include "tutti/nccl.h"

#define TUTTI_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_NCCL(result, name, parameters, arguments) TUTTI_API result tuttiNccl##name parameters;
#define TUTTI_NCCL_ABSENT(result, name, parameters, arguments, since, failure) \
  TUTTI_API result tuttiNccl##name parameters;
#include "tutti/nccl_functions.def"

/* Tutti's version, "0.1.0". Static storage. */
TUTTI_API const char* tuttiVersion(void);

/* ---- Streams on host communicators -------------------------------------------------------- */

/* A queue of calls with a thread of its own. Pass it where NCCL takes a stream, as
 * (cudaStream_t)stream. Calls of one stream run in order. Calls on one communicator run in the
 * order they were made, whatever their streams. Do not touch buffers until tuttiStreamSynchronize
 * returns or tuttiStreamQuery returns ncclSuccess. */
typedef struct tuttiStream* tuttiStream_t;

TUTTI_API ncclResult_t tuttiStreamCreate(tuttiStream_t* stream);
/* Waits for all queued calls, then frees the stream. */
TUTTI_API ncclResult_t tuttiStreamDestroy(tuttiStream_t stream);
/* Waits for all queued calls. Returns the first failure of a queued call, if any. */
TUTTI_API ncclResult_t tuttiStreamSynchronize(tuttiStream_t stream);
/* ncclInProgress while a call is queued or running; otherwise as tuttiStreamSynchronize. */
TUTTI_API ncclResult_t tuttiStreamQuery(tuttiStream_t stream);

/* ---- Collectives with a count for each rank ------------------------------------------------ */

/* Collectives whose blocks differ in size. Counts and displacements are in elements, one per rank
 * of the communicator; the call copies them before it returns. displs[r] is the offset of block r
 * in its buffer. NULL means that blocks follow each other in rank order. A count may be 0, and a
 * buffer without elements may be NULL. Memory between blocks is not touched. Received blocks must
 * not overlap.
 *
 * Otherwise they behave like NCCL's calls: every rank makes them in the same order, one thread at a
 * time, alone or in a group, with or without a stream. Do not touch buffers until the call is done.
 * ncclInvalidArgument: the text names the wrong argument, and nothing has happened. If the ranks'
 * counts contradict each other, the communicator fails with ncclInvalidUsage and the text shows
 * both calls, as for any calls that differ. A rank whose own part was already complete fails in its
 * next call instead. No rank reads or writes outside the buffers that it named. */

/* Block r of recvbuff = sendbuff of rank r. recvcounts are equal on all ranks, and sendcount is
 * this rank's entry of them. displs may differ between ranks. In place: sendbuff is this rank's
 * block of recvbuff. */
TUTTI_API ncclResult_t tuttiAllGatherv(const void* sendbuff, size_t sendcount, void* recvbuff,
                                       const size_t recvcounts[], const size_t displs[],
                                       ncclDataType_t datatype, ncclComm_t comm,
                                       cudaStream_t stream);
/* recvbuff = this rank's block of op over the sendbuffs of all ranks. sendcounts are equal on all
 * ranks, and recvcount is this rank's entry of them. displs may differ between ranks. In place:
 * recvbuff is this rank's block of sendbuff. */
TUTTI_API ncclResult_t tuttiReduceScatterv(const void* sendbuff, const size_t sendcounts[],
                                           const size_t displs[], void* recvbuff, size_t recvcount,
                                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                           cudaStream_t stream);
/* Block r of recvbuff = block `rank` of rank r's sendbuff. This is one group of a send to each rank
 * and a receive from each, including empty ones. sendcounts[r] here equals recvcounts[rank] of rank
 * r. sendbuff and recvbuff must not overlap: there is no in-place form. */
TUTTI_API ncclResult_t tuttiAllToAllv(const void* sendbuff, const size_t sendcounts[],
                                      const size_t sdispls[], void* recvbuff,
                                      const size_t recvcounts[], const size_t rdispls[],
                                      ncclDataType_t datatype, ncclComm_t comm,
                                      cudaStream_t stream);

/* ---- Communicators ------------------------------------------------------------------------ */

/* ncclCommInitRank for a process that a launcher started: `tutti run`, torchrun, mpirun or srun.
 * Without a launcher it makes a communicator of one rank. `url` is env://, tcp://host:port,
 * file:///path, pmi:// or pmix://; NULL detects the launcher. timeout_s <= 0 means
 * TUTTI_INIT_TIMEOUT. This call and the communicator's calls always block, whatever
 * NCCL_COMM_BLOCKING says. */
TUTTI_API ncclResult_t tuttiCommInitFromEnvironment(ncclComm_t* comm, const char* url,
                                                    double timeout_s);

/* Collectives by number, for the functions below. */
typedef enum {
  tuttiAllReduce = 0,
  tuttiAllGather = 1,
  tuttiReduceScatter = 2,
  tuttiBroadcast = 3,
  tuttiReduce = 4,
  tuttiAllToAll = 5,
  tuttiGather = 6,
  tuttiScatter = 7,
  tuttiSend = 8,
  tuttiRecv = 9,
  tuttiNumCollectives = 10
} tuttiCollective_t;

/* Fixes the algorithm ("two_shot"; see `tutti algo list`) for this communicator's calls of
 * `collective`, from the next call on. The library chooses for calls that the algorithm cannot run
 * or has no room for. NULL or "" lets the library choose again. This takes precedence over
 * TUTTI_ALGO and measurements. "fixed_tree" is different: it runs every call of a reduction or
 * fails it, because its order of addition must depend on the number of ranks alone
 * (docs/algorithms.md). `kernel_reads`: 1 reads large inputs of other ranks on one host through the
 * kernel where possible, 0 never does, -1 lets the library choose. All ranks must call this with
 * the same arguments between the same calls. ncclInvalidArgument when the algorithm does not exist
 * or cannot run this collective on these ranks. */
TUTTI_API ncclResult_t tuttiCommSetAlgorithm(ncclComm_t comm, tuttiCollective_t collective,
                                             const char* algorithm, int kernel_reads);
/* The name of the algorithm that would run this call ("one_shot"), cut to `bytes` and always
 * zero-terminated. `root` is the peer for sends and receives; other collectives without a root
 * ignore it. */
TUTTI_API ncclResult_t tuttiCommAlgorithm(ncclComm_t comm, tuttiCollective_t collective,
                                          size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                                          int root, char* name, size_t bytes);
/* The transports in use, "shm" or "shm,tcp"; cut to `bytes` and always zero-terminated. */
TUTTI_API ncclResult_t tuttiCommTransports(ncclComm_t comm, char* names, size_t bytes);
/* The number of hosts that the ranks run on. */
TUTTI_API ncclResult_t tuttiCommHosts(ncclComm_t comm, int* hosts);
/* host_of_rank has room for one number per rank and receives each rank's host. Hosts are numbered
 * from 0 in the order of their first ranks. *topology, unless NULL, receives a hash of how the
 * machines are wired, which identifies them in measured tables; 0 when unknown. */
TUTTI_API ncclResult_t tuttiCommPlacement(ncclComm_t comm, int* host_of_rank,
                                          unsigned long long* topology);
/* The name that the host of `rank` gives itself, cut to `bytes` and always zero-terminated. */
TUTTI_API ncclResult_t tuttiCommHostName(ncclComm_t comm, int rank, char* name, size_t bytes);
/* The rank whose failure ended this communicator; -1 while it works or when no rank is to blame. */
TUTTI_API ncclResult_t tuttiCommFailedRank(ncclComm_t comm, int* rank);

/* ---- Counters ----------------------------------------------------------------------------- */

/* What the calls of one collective did on this rank since the communicator was made. Counting is
 * always on. Any thread may ask while others make calls, as long as the communicator is neither
 * destroyed nor aborted meanwhile. Each number is correct by itself; if a call ends at that moment,
 * some numbers may include it already and others not. An all_to_all with counts is a group of sends
 * and receives. Calls that GPUs run by themselves are not counted. Where a call on GPU buffers is
 * staged through host memory, each staged part counts as one call. */
typedef struct {
  unsigned long long calls; /* completed calls */
  /* Payload that this rank sent: the bytes of all chunks that it sends to any rank by the schedule
   * of the algorithm that ran. Encoded chunks count at their encoded size. The path does not
   * matter: bytes that a peer reads directly from this rank's memory count as sent. Headers, local
   * copies and retransmissions do not count. An all_reduce of P bytes over N ranks by a ring or in
   * two shots sends 2 P (N-1) bytes in all. Each rank sends 2 P (N-1)/N of them if P is a multiple
   * of 64 N, because parts end at cache lines. A reduce_scatter or all_gather of P bytes in all
   * sends P (N-1)/N from each rank. Sends to oneself and receives count 0. */
  unsigned long long bytes_sent;
  unsigned long long bytes_sent_to_other_hosts; /* part of bytes_sent; hosts: tuttiCommPlacement */
  /* Sum over the calls, accurate to about 0.1 %. A call begins when the calls before it are
   * complete, and ends when it is complete on this rank; waits for other ranks are included. A
   * group of sends and receives counts once: as a send if it contains one, else as a receive. */
  double seconds;
} tuttiOperationStats;
TUTTI_API ncclResult_t tuttiCommOperationStats(ncclComm_t comm, tuttiCollective_t collective,
                                               tuttiOperationStats* stats);

/* The call that this rank has begun and not completed; for a group of sends and receives, its
 * first. A call that waits behind others on its communicator has not begun. */
typedef struct {
  tuttiCollective_t collective;
  ncclDataType_t datatype;
  size_t count;                /* as in the call; with a count per rank, their sum */
  unsigned long long sequence; /* calls and groups begun so far; 0: none is running */
  double age_seconds;          /* since it began */
} tuttiOperationUnderWay;
/* Any thread, as tuttiCommOperationStats. */
TUTTI_API ncclResult_t tuttiCommOperationUnderWay(ncclComm_t comm, tuttiOperationUnderWay* call);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TUTTI_TUTTI_H_ */
