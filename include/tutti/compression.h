/* Collectives that send floats in fewer bytes, and lose precision by it.
 *
 * A tuttiCompression_t says how: in which format, how values are rounded, and whether what one call
 * rounds off is added in the next one. docs/fewer_bytes.md says what each format loses.
 *
 *   tuttiCompression_t int8;
 *   tuttiCompressionCreate(&int8, "int8:block=128");
 *   tuttiAllReduceCompressed(in, out, count, ncclFloat, ncclSum, 1, 1, int8, comm, NULL);
 *   tuttiCompressionDestroy(int8);
 *
 * Data is ncclFloat, ncclHalf or ncclBfloat16 in host memory; reductions are ncclSum or ncclAvg.
 * All ranks of a call pass equal compressions, each its own. They get the same bits, whatever the
 * hosts that they are on. Between several hosts only what crosses is compressed, where that keeps
 * this promise. Data that a format would not make smaller is sent as it is.
 */
#ifndef TUTTI_COMPRESSION_H_
#define TUTTI_COMPRESSION_H_

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One rank's compression for a series of calls, which must not overlap. */
typedef struct tuttiCompression* tuttiCompression_t;

/* `how` is a format with settings, each behind a colon: "int8:block=128:scale=fp16",
 * "topk:k=1%:errors=feedback", "int4:rounding=random:seed=7". ncclInvalidArgument: the text names
 * the word that is wrong, and what may stand there. */
TUTTI_API ncclResult_t tuttiCompressionCreate(tuttiCompression_t* compression, const char* how);
/* Calls that were made with it run to their end. */
TUTTI_API ncclResult_t tuttiCompressionDestroy(tuttiCompression_t compression);
/* Its format with all settings, cut to `bytes` and ended by a zero. */
TUTTI_API ncclResult_t tuttiCompressionText(tuttiCompression_t compression, char* text,
                                            size_t bytes);

/* What `count` values become. */
typedef struct {
  size_t bytes;  /* that they take */
  size_t shared; /* part of these: scales, or the places of kept values */
  size_t block;  /* so many values are encoded together */
} tuttiEncodedSize;
/* Of values that a call sends together. A collective may cut a vector into parts, each encoded by
 * itself. Data that the format would not make smaller is sent as it is. */
TUTTI_API ncclResult_t tuttiCompressionSize(tuttiCompression_t compression, size_t count,
                                            tuttiEncodedSize* size);
/* Random rounding depends on the seed and on the number of the call: 0, 1, 2 ... of a compression.
 * The next call is number `number`, on all ranks: to repeat calls bit for bit. */
TUTTI_API ncclResult_t tuttiCompressionSetCallNumber(tuttiCompression_t compression,
                                                     unsigned long long number);

/* How long this rank's calls have encoded, decoded and added up so far. Any thread. */
TUTTI_API ncclResult_t tuttiCompressionBusySeconds(tuttiCompression_t compression, double* seconds);

/* ---- What a rank owes ---------------------------------------------------------------------- */

/* With errors=feedback a compression keeps what its calls have rounded off at this rank, and adds
 * it in the next call. All its calls must then be alike: of one communicator, collective, count and
 * type; another one is ncclInvalidUsage until tuttiCompressionReset. Errors may be read and written
 * between calls, to be saved with a checkpoint. */

/* How many errors there are: 0 before the first call. */
TUTTI_API ncclResult_t tuttiCompressionErrorCount(tuttiCompression_t compression, size_t* count);
/* `count` must be that number. */
TUTTI_API ncclResult_t tuttiCompressionGetErrors(tuttiCompression_t compression, float* errors,
                                                 size_t count);
/* Before the first call: as many as the calls will have. */
TUTTI_API ncclResult_t tuttiCompressionSetErrors(tuttiCompression_t compression,
                                                 const float* errors, size_t count);
/* Forgets the errors: the next call may be any. */
TUTTI_API ncclResult_t tuttiCompressionReset(tuttiCompression_t compression);
/* For an all-reduce of `elements` elements that goes on with `new_ranks` ranks: what rank `rank` of
 * those owes, such that all together owe what the old ones did. errors[r] are the counts[r] errors
 * of old rank r. Writes `elements` floats to `owed`, for tuttiCompressionOwe. */
TUTTI_API ncclResult_t tuttiCompressionMoveErrors(const float* const errors[],
                                                  const size_t counts[], int ranks, size_t elements,
                                                  int rank, int new_ranks, float* owed);
/* The next call, which must be an all-reduce of `count` elements, adds these to this rank's input,
 * after that was scaled. */
TUTTI_API ncclResult_t tuttiCompressionOwe(tuttiCompression_t compression, const float* owed,
                                           size_t count);

/* ---- Collectives --------------------------------------------------------------------------- */

/* NCCL's arguments, and a compression. Reductions also take two factors: the inputs are multiplied
 * by `prescale`, and the result by `postscale`, in one multiplication of the inputs; each rank may
 * have a `prescale` of its own. An average multiplies them by one over the number of ranks, too.
 * Groups and streams work as with NCCL's calls. */
TUTTI_API ncclResult_t tuttiAllReduceCompressed(const void* sendbuff, void* recvbuff, size_t count,
                                                ncclDataType_t datatype, ncclRedOp_t op,
                                                float prescale, float postscale,
                                                tuttiCompression_t compression, ncclComm_t comm,
                                                cudaStream_t stream);
TUTTI_API ncclResult_t tuttiReduceScatterCompressed(const void* sendbuff, void* recvbuff,
                                                    size_t recvcount, ncclDataType_t datatype,
                                                    ncclRedOp_t op, float prescale, float postscale,
                                                    tuttiCompression_t compression, ncclComm_t comm,
                                                    cudaStream_t stream);
TUTTI_API ncclResult_t tuttiReduceCompressed(const void* sendbuff, void* recvbuff, size_t count,
                                             ncclDataType_t datatype, ncclRedOp_t op, int root,
                                             float prescale, float postscale,
                                             tuttiCompression_t compression, ncclComm_t comm,
                                             cudaStream_t stream);
TUTTI_API ncclResult_t tuttiAllGatherCompressed(const void* sendbuff, void* recvbuff,
                                                size_t sendcount, ncclDataType_t datatype,
                                                tuttiCompression_t compression, ncclComm_t comm,
                                                cudaStream_t stream);
TUTTI_API ncclResult_t tuttiAlltoAllCompressed(const void* sendbuff, void* recvbuff, size_t count,
                                               ncclDataType_t datatype,
                                               tuttiCompression_t compression, ncclComm_t comm,
                                               cudaStream_t stream);
TUTTI_API ncclResult_t tuttiBroadcastCompressed(const void* sendbuff, void* recvbuff, size_t count,
                                                ncclDataType_t datatype, int root,
                                                tuttiCompression_t compression, ncclComm_t comm,
                                                cudaStream_t stream);

/* Blocks of different sizes, as in tutti/tutti.h. */
TUTTI_API ncclResult_t tuttiAllGathervCompressed(const void* sendbuff, size_t sendcount,
                                                 void* recvbuff, const size_t recvcounts[],
                                                 const size_t displs[], ncclDataType_t datatype,
                                                 tuttiCompression_t compression, ncclComm_t comm,
                                                 cudaStream_t stream);
TUTTI_API ncclResult_t tuttiReduceScattervCompressed(
    const void* sendbuff, const size_t sendcounts[], const size_t displs[], void* recvbuff,
    size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op, float prescale, float postscale,
    tuttiCompression_t compression, ncclComm_t comm, cudaStream_t stream);
/* Each block is encoded by itself, and rounded once, also this rank's own and those that stay on a
 * host. Its errors are not kept: errors=feedback is ncclInvalidArgument. */
TUTTI_API ncclResult_t tuttiAllToAllvCompressed(const void* sendbuff, const size_t sendcounts[],
                                                const size_t sdispls[], void* recvbuff,
                                                const size_t recvcounts[], const size_t rdispls[],
                                                ncclDataType_t datatype,
                                                tuttiCompression_t compression, ncclComm_t comm,
                                                cudaStream_t stream);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TUTTI_COMPRESSION_H_ */
