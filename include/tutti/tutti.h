/* Tutti's C API beyond NCCL's: what libtutti.so exports.
 *
 * NCCL's functions are here as tuttiNcclAllReduce and so on, the same as ncclAllReduce of
 * libnccl.so.2; a program that does not want NCCL's names links libtutti.so alone. Types, constants
 * and contracts: tutti/nccl.h. All functions may be called from any thread unless NCCL's rule about
 * a communicator's one thread applies.
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

/* A queue of calls that runs beside the caller, on a thread of its own. Pass it where NCCL takes a
 * stream, as (cudaStream_t)stream. Calls of one stream run in order; calls on one communicator run
 * in the order they were made, whatever their streams. Buffers stay untouched until
 * tuttiStreamSynchronize returns or tuttiStreamQuery says ncclSuccess. */
typedef struct tuttiStream* tuttiStream_t;

TUTTI_API ncclResult_t tuttiStreamCreate(tuttiStream_t* stream);
/* Waits for what is queued, then frees. */
TUTTI_API ncclResult_t tuttiStreamDestroy(tuttiStream_t stream);
/* Waits for what is queued; the first failure of a queued call, if there was one. */
TUTTI_API ncclResult_t tuttiStreamSynchronize(tuttiStream_t stream);
/* ncclInProgress while something is queued or runs; else as tuttiStreamSynchronize. */
TUTTI_API ncclResult_t tuttiStreamQuery(tuttiStream_t stream);

/* ---- Collectives with a count for each rank ------------------------------------------------ */

/* Collectives whose blocks differ in size. Counts and displacements are in elements and have an
 * entry for each rank of the communicator; they are copied before the call returns. displs[r] says
 * where block r begins in its buffer; NULL: blocks follow each other in the order of ranks. A count
 * may be 0, and a buffer without elements NULL. What lies between blocks is not touched. Blocks
 * that are received must not overlap.
 *
 * Otherwise they are calls like NCCL's: every rank makes them in the same order, one thread at a
 * time, alone or in a group, here or on a stream; buffers stay untouched until the call is done.
 * ncclInvalidArgument says which argument is wrong, and nothing has happened. Counts that do not
 * fit each other fail the communicator with ncclInvalidUsage and both calls in the text, as other
 * calls that differ do: here, or in the next call of a rank whose own part was complete. Nothing
 * outside of what a rank named is read or written. */

/* Block r of recvbuff = what rank r sends. recvcounts are the same on all ranks, and sendcount is
 * this rank's own of them; displs may differ from rank to rank. In place: sendbuff is this rank's
 * block of recvbuff. */
TUTTI_API ncclResult_t tuttiAllGatherv(const void* sendbuff, size_t sendcount, void* recvbuff,
                                       const size_t recvcounts[], const size_t displs[],
                                       ncclDataType_t datatype, ncclComm_t comm,
                                       cudaStream_t stream);
/* recvbuff = this rank's block of op over the sendbuffs of all ranks. sendcounts are the same on
 * all ranks, and recvcount is this rank's own of them; displs may differ from rank to rank. In
 * place: recvbuff is this rank's block of sendbuff. */
TUTTI_API ncclResult_t tuttiReduceScatterv(const void* sendbuff, const size_t sendcounts[],
                                           const size_t displs[], void* recvbuff, size_t recvcount,
                                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                           cudaStream_t stream);
/* Block r of recvbuff = block `rank` of rank r's sendbuff: a send to each rank and a receive from
 * each, empty ones too, of one group. sendcounts[r] here is recvcounts[rank] of rank r. Nothing of
 * sendbuff and recvbuff may overlap: there is no in-place form. */
TUTTI_API ncclResult_t tuttiAllToAllv(const void* sendbuff, const size_t sendcounts[],
                                      const size_t sdispls[], void* recvbuff,
                                      const size_t recvcounts[], const size_t rdispls[],
                                      ncclDataType_t datatype, ncclComm_t comm,
                                      cudaStream_t stream);

/* ---- Communicators ------------------------------------------------------------------------ */

/* ncclCommInitRank for a process that a launcher started: `tutti run`, torchrun, mpirun, srun, or
 * none, which makes one rank. `url` (NULL detects the launcher) is env://, tcp://host:port,
 * file:///path, pmi:// or pmix://. timeout_s <= 0: TUTTI_INIT_TIMEOUT. It always waits, and so do
 * the communicator's calls, whatever NCCL_COMM_BLOCKING says. */
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

/* From the next call on, `algorithm` ("two_shot"; `tutti algo list`) runs the calls of `collective`
 * on this communicator that it can run and has room for, and the library chooses for the others;
 * NULL or "" leaves the choice to the library again. It goes before TUTTI_ALGO and what was
 * measured. "fixed_tree" runs all calls of reductions or fails them: its sums have one order of
 * addition, by the number of ranks alone (docs/algorithms.md). `kernel_reads`: 1 lets the kernel
 * read large inputs of ranks on one host where it can, 0 does not, -1 leaves that to the library.
 * All ranks have to say the same between the same calls; ncclInvalidArgument when it does not exist
 * or can do nothing of the kind over these ranks. */
TUTTI_API ncclResult_t tuttiCommSetAlgorithm(ncclComm_t comm, tuttiCollective_t collective,
                                             const char* algorithm, int kernel_reads);
/* The name of the algorithm that would run this call ("one_shot"), cut to `bytes` and always ended
 * by a zero. `root` is the peer of sends and receives, and ignored where there is none. */
TUTTI_API ncclResult_t tuttiCommAlgorithm(ncclComm_t comm, tuttiCollective_t collective,
                                          size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                                          int root, char* name, size_t bytes);
/* The transports in use, "shm" or "shm,tcp"; cut to `bytes` and always ended by a zero. */
TUTTI_API ncclResult_t tuttiCommTransports(ncclComm_t comm, char* names, size_t bytes);
/* The number of hosts that the ranks are on. */
TUTTI_API ncclResult_t tuttiCommHosts(ncclComm_t comm, int* hosts);
/* Into host_of_rank, which has room for one number per rank: the host of each rank, numbered from 0
 * in the order of their first ranks. Into *topology, unless NULL: a hash of how their machines are
 * wired, by which measured tables tell them apart; 0 where it is not known. */
TUTTI_API ncclResult_t tuttiCommPlacement(ncclComm_t comm, int* host_of_rank,
                                          unsigned long long* topology);
/* The name that the host of `rank` gives itself, cut to `bytes` and always ended by a zero. */
TUTTI_API ncclResult_t tuttiCommHostName(ncclComm_t comm, int rank, char* name, size_t bytes);
/* The rank whose failure ended this communicator; -1 while it works or when none is to blame. */
TUTTI_API ncclResult_t tuttiCommFailedRank(ncclComm_t comm, int* rank);

/* ---- Counters ----------------------------------------------------------------------------- */

/* What the calls of one collective have done on this rank since the communicator was made.
 * Counting is always on. Any thread may ask, while others make calls, as long as the communicator
 * is neither destroyed nor aborted meanwhile; each number is right by itself, and those of a call
 * that ends meanwhile may be in some of them already. An all_to_all with counts is a group of sends
 * and receives. What GPUs do by themselves is not counted; where calls on their buffers pass
 * through host memory, each part that passes is one. */
typedef struct {
  unsigned long long calls; /* that completed */
  /* Payload that this rank sent in them: the bytes of all chunks that it sends by the schedule of
   * the algorithm that ran, to whichever ranks; those that travel encoded as encoded. Ways do not
   * count: a peer that reads this rank's memory where it lies was sent what the schedule sends it,
   * and headers, copies and repetitions are no payload. By a ring or in two shots an all_reduce of
   * P bytes over N ranks is 2 P (N-1)/N from each where P is a multiple of 64 N (parts end at cache
   * lines), and 2 P (N-1) from all together always; a reduce_scatter or all_gather of P bytes in
   * all is P (N-1)/N. Sends to oneself and receives are nothing. */
  unsigned long long bytes_sent;
  unsigned long long bytes_sent_to_other_hosts; /* of those: hosts as tuttiCommPlacement has them */
  /* From when this rank began them, which is when the calls before them were complete, to when they
   * were complete here, waits for other ranks included; right to about a thousandth. A group of
   * sends and receives counts once: as sends if there is one among them, else as receives. */
  double seconds;
} tuttiOperationStats;
TUTTI_API ncclResult_t tuttiCommOperationStats(ncclComm_t comm, tuttiCollective_t collective,
                                               tuttiOperationStats* stats);

/* The call that this rank has begun and that is not complete; of a group of sends and receives the
 * first. A call behind others on its communicator has not begun. */
typedef struct {
  tuttiCollective_t collective;
  ncclDataType_t datatype;
  size_t count;                /* as in the call; with counts for each rank, of all of them */
  unsigned long long sequence; /* calls and groups begun so far; 0: none is under way */
  double age_seconds;          /* since it began */
} tuttiOperationUnderWay;
/* Any thread, as tuttiCommOperationStats. */
TUTTI_API ncclResult_t tuttiCommOperationUnderWay(ncclComm_t comm, tuttiOperationUnderWay* call);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TUTTI_TUTTI_H_ */
