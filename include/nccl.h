/* NCCL's C API as Tutti offers it: the types and functions of NCCL 2.28.9, binary compatible. The
 * functions of 2.29 to 2.32 exist too, but only return an error (ncclInvalidUsage, with a text that
 * says so).
 *
 * C99 or C++14. Needs no CUDA. If cuda_runtime.h is found it is included, and streams are
 * cudaStream_t. A communicator of CPU processes ("host communicator") takes as stream either NULL
 * or a tuttiStream_t (tutti/tutti.h) cast to cudaStream_t. NULL runs the call in the calling thread
 * and returns when it is done.
 *
 * Rules for all functions
 *   - Buffers belong to the caller, who must not touch them until the call is complete.
 *   - Counts are elements, never bytes. Every rank of a communicator makes the same calls in the
 *     same order; a mismatch is an error that shows both sides. The root of a small broadcast or
 *     scatter does not wait for its readers. So its mismatched call may succeed; its readers' calls
 *     and its own next call fail.
 *   - Only one thread at a time may use a communicator. Any thread may call ncclCommAbort,
 *     ncclCommRevoke and ncclCommGetAsyncError.
 *   - If a process has called any function, the child of its fork() must exec before it calls one.
 *   - ncclGetLastError returns a text about the last error.
 */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__has_include)
#if __has_include(<cuda_runtime.h>) && __has_include(<cuda_fp16.h>)
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define TUTTI_NCCL_HAS_CUDA_RUNTIME 1
#endif
#endif
#ifndef TUTTI_NCCL_HAS_CUDA_RUNTIME
typedef struct CUstream_st* cudaStream_t;
#endif

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_SUFFIX ""

/* 2.28.9 is 22809. Up to 2.8 the major version was multiplied by 1000. */
#define NCCL_VERSION(X, Y, Z) \
  (((X) <= 2 && (Y) <= 8) ? (X) * 1000 + (Y) * 100 + (Z) : (X) * 10000 + (Y) * 100 + (Z))
#define NCCL_VERSION_CODE 22809

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Types -------------------------------------------------------------------------------- */

typedef struct ncclComm* ncclComm_t;
#define NCCL_COMM_NULL NULL

/* Memory that all ranks have registered together. Opaque. */
typedef struct ncclWindow_vidmem* ncclWindow_t;

/* Address and secret of a job. One rank makes it, and the program passes it to the others. */
#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,     /* a resource is missing: free some and retry */
  ncclInternalError = 3,   /* a bug: report it */
  ncclInvalidArgument = 4, /* the call is wrong */
  ncclInvalidUsage = 5,    /* not now, or not supported, or the communicator was aborted */
  ncclRemoteError = 6,     /* another rank died, disagreed or did not answer in time */
  ncclInProgress = 7,      /* not an error: poll ncclCommGetAsyncError */
  ncclNumResults = 8
} ncclResult_t;

typedef enum {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

/* Values >= ncclNumOps are operators made by ncclRedOpCreatePreMulSum. */
typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;
typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5,
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef enum {
  ncclScalarDevice = 0,       /* on a host communicator: host memory, read when the op is used */
  ncclScalarHostImmediate = 1 /* host memory, read by ncclRedOpCreatePreMulSum */
} ncclScalarResidence_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT -1.0f
#define NCCL_SPLIT_NOCOLOR -1

#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02

#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01 /* abort running calls first: for use after a failure */

#define NCCL_REVOKE_DEFAULT 0x00

#define NCCL_API_MAGIC 0xcafebeef

/* Options of a communicator. Begin with NCCL_CONFIG_INITIALIZER: size, magic and version tell the
 * library which fields the program knows. A host communicator uses blocking, netName and commName.
 * It checks the ranges of all fields and otherwise ignores those that concern only GPUs. */
typedef struct ncclConfig_v22800 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking; /* 0: calls return ncclInProgress and finish in the background */
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char*
      netName; /* the network between hosts: TCP ("Socket"); others get a warning, and TCP */
  int splitShare;
  int trafficClass;
  const char* commName; /* for log lines */
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                   \
  {                                                                               \
      sizeof(ncclConfig_t),                             /* size */                \
      NCCL_API_MAGIC,                                   /* magic */               \
      NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), /* version */             \
      NCCL_CONFIG_UNDEF_INT,                            /* blocking */            \
      NCCL_CONFIG_UNDEF_INT,                            /* cgaClusterSize */      \
      NCCL_CONFIG_UNDEF_INT,                            /* minCTAs */             \
      NCCL_CONFIG_UNDEF_INT,                            /* maxCTAs */             \
      NCCL_CONFIG_UNDEF_PTR,                            /* netName */             \
      NCCL_CONFIG_UNDEF_INT,                            /* splitShare */          \
      NCCL_CONFIG_UNDEF_INT,                            /* trafficClass */        \
      NCCL_CONFIG_UNDEF_PTR,                            /* commName */            \
      NCCL_CONFIG_UNDEF_INT,                            /* collnetEnable */       \
      NCCL_CONFIG_UNDEF_INT,                            /* CTAPolicy */           \
      NCCL_CONFIG_UNDEF_INT,                            /* shrinkShare */         \
      NCCL_CONFIG_UNDEF_INT,                            /* nvlsCTAs */            \
      NCCL_CONFIG_UNDEF_INT,                            /* nChannelsPerNetPeer */ \
      NCCL_CONFIG_UNDEF_INT                             /* nvlinkCentricSched */  \
  }

typedef struct ncclSimInfo_v22200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime; /* us */
} ncclSimInfo_t;

#define NCCL_SIM_INFO_MAGIC 0x74685283
#define NCCL_SIM_INFO_INITIALIZER                                           \
  {                                                                         \
      sizeof(ncclSimInfo_t),                            /* size */          \
      NCCL_SIM_INFO_MAGIC,                              /* magic */         \
      NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), /* version */       \
      NCCL_UNDEF_FLOAT                                  /* estimatedTime */ \
  }

/* Types of later versions and of the device API, for functions that only return an error. */
typedef enum {
  ncclStatGpuMemSuspend = 0,
  ncclStatGpuMemSuspended = 1,
  ncclStatGpuMemPersist = 2,
  ncclStatGpuMemTotal = 3
} ncclCommMemStat_t;
typedef struct {
  int opCnt;
  int peer;
  int sigIdx;
  int ctx;
} ncclWaitSignalDesc_t;
typedef struct ncclParamHandle* ncclParamHandle_t;
typedef struct ncclCollConfig ncclCollConfig_t;
typedef struct ncclEncryptionConfig_v23200 ncclEncryptionConfig_t;
typedef uint32_t ncclCftLeId;
typedef enum {
  NCCL_CFT_TEAM_FLAT,
  NCCL_CFT_TEAM_HIER_MULTIMEM,
  NCCL_CFT_TEAM_HIER_LSA
} ncclCftTeamMode_t;
typedef struct ncclTeam {
  int nRanks;
  int rank;
  int stride;
} ncclTeam_t;
typedef struct ncclMultimemHandle {
  void* mcBasePtr;
} ncclMultimemHandle_t;
struct ncclCommProperties;
struct ncclDevComm;
struct ncclDevCommRequirements;
struct ncclDevResourceRequirements;
struct ncclGinBarrierHandle;
struct ncclGinInboxA2AHandle;
struct ncclGinOutboxHandle;
struct ncclLLA2AHandle;
struct ncclLsaBarrierHandle;

/* ---- Versions, errors, memory ------------------------------------------------------------- */

/* The NCCL version of this ABI: 22809. For Tutti's own version see tuttiVersion. */
ncclResult_t ncclGetVersion(int* version);

/* Starts a rendezvous in this process. The process must live until every rank has joined. */
ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId);

/* What a result code means. Static storage. */
const char* ncclGetErrorString(ncclResult_t result);

/* One sentence about the last error of this communicator; "" if it had none. With NULL, about the
 * last error of this thread, or of the process if the thread had none. Valid until this thread
 * calls it again. */
const char* ncclGetLastError(ncclComm_t comm);

/* Re-reads TUTTI_DEBUG and NCCL_DEBUG. */
void ncclResetDebugInit(void);
void ncclResetDebugInitInternal(void); /* the same; NVIDIA's own tools call it */

/* Allocates zeroed, page-aligned memory that ranks on this host map directly: the fastest buffers.
 * 0 bytes yield NULL. If a call on such memory fails while a stopped peer could still write to it,
 * its pages become private. They keep their contents, later calls use them as ordinary memory, and
 * they are not reused after ncclMemFree. So keep receive buffers of different communicators on
 * different pages. */
ncclResult_t ncclMemAlloc(void** ptr, size_t size);
ncclResult_t ncclMemFree(void* ptr);

/* ---- Communicators ------------------------------------------------------------------------ */

/* Collective over nranks ranks: processes, threads, or calls of one thread inside a group. Fails
 * after 60 s with the list of missing ranks. */
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                    ncclConfig_t* config);
/* nId ids, 1 <= nId <= nranks, the same list on every rank. */
ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId,
                                      ncclUniqueId* commIds, ncclConfig_t* config);
/* Makes ndev ranks in this process, rank i in comm[i]. Call collectives on them inside groups, or
 * with one thread per rank. devlist names the GPUs of CUDA communicators. Without GPUs its entries
 * must be distinct and not negative, and have no other meaning. */
ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist);

/* Completes running calls. Afterwards only getters, ncclCommDestroy and ncclCommAbort are legal. */
ncclResult_t ncclCommFinalize(ncclComm_t comm);
/* Waits for running calls, then frees the communicator. Calls that take longer than
 * TUTTI_INIT_TIMEOUT (60 s) end with ncclRemoteError. comm may be NULL. */
ncclResult_t ncclCommDestroy(ncclComm_t comm);
/* Ends running calls on all ranks with an error, then frees the communicator. Any thread. */
ncclResult_t ncclCommAbort(ncclComm_t comm);
/* Ends running calls, and rejects new ones except ncclCommShrink. Frees nothing. revokeFlags:
 * NCCL_REVOKE_DEFAULT. Any thread. */
ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags);

/* Collective. Ranks with the same color form a new communicator, ordered by (key, old rank);
 * NCCL_SPLIT_NOCOLOR yields NULL. With config NULL the parent's is used. */
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                           ncclConfig_t* config);
/* Collective over the remaining ranks. Excluded ranks must not call it, and may be dead. Sorts the
 * list. With NCCL_SHRINK_ABORT, running calls are aborted first, and afterwards `comm` is only
 * valid for ncclCommDestroy and ncclCommAbort. */
ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                            ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags);

/* ncclInProgress while a non-blocking call is running; else success, or the error that ended
 * `comm`. */
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError);
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count);
/* The GPU's index; -1 on a host communicator, which has none. */
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank);

/* Announces that a buffer will be used often. Repeated calls with one buffer return the same
 * handle; deregister it as often. */
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle);
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle);
/* The same for memory that every rank registers, in the same order. Of GPU memory there are no
 * windows: *win is NULL, and calls on the buffer work without. */
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win,
                                    int winFlags);
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win);

/* A sum in which each rank's input is first multiplied by that rank's scalar (one element of
 * `datatype`). The operator belongs to `comm` and works only on `datatype`. It may be destroyed
 * once the calls that use it were made, even before their group ends. */
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm);
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);

/* ---- Collectives -------------------------------------------------------------------------- */

/* n is the number of ranks. "In place" names the only overlap of buffers that is allowed. */

/* recvbuff of root = op over the sendbuff of all ranks. In place: sendbuff == recvbuff. recvbuff of
 * other ranks is not used and may be NULL. */
ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
/* ncclBroadcast in place. */
ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream);
/* recvbuff = sendbuff of root. In place: sendbuff == recvbuff on root. */
ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);
/* recvbuff = op over the sendbuff of all ranks, the same bits on every rank. In place:
 * sendbuff == recvbuff. */
ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream);
/* recvbuff = block `rank` of op over the sendbuff of all ranks, which hold n * recvcount elements.
 * In place: recvbuff == sendbuff + rank * recvcount. */
ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream);
/* Block r of recvbuff (n * sendcount elements) = sendbuff of rank r. In place:
 * sendbuff == recvbuff + rank * sendcount. */
ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
/* Block r of recvbuff = block `rank` of rank r's sendbuff; n * count elements each. Never in
 * place. */
ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                          ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
/* Block r of root's recvbuff = sendbuff of rank r. In place: sendbuff == recvbuff + root * count on
 * root. */
ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        int root, ncclComm_t comm, cudaStream_t stream);
/* recvbuff = block `rank` of root's sendbuff. In place: recvbuff == sendbuff + root * count on
 * root. */
ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);
/* The k-th send to a peer matches its k-th receive. Sizes must agree, and 0 elements are a message,
 * too. Put sends and receives that depend on each other (exchanges, rings) into one group. */
ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream);

/* ---- Groups ------------------------------------------------------------------------------- */

/* Calls between the outermost pair are checked when they are made. ncclGroupEnd executes them
 * together, so one thread can drive several ranks. Groups nest, and belong to a thread. If a call
 * inside fails, ncclGroupEnd returns its error again and executes nothing. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
/* Not supported yet: ends the group without executing it and returns ncclInvalidUsage. */
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* simInfo);

/* ---- Exported so that programs load; each only returns an error ---------------------------- */

/* The device API. Teams are empty (nRanks 0), numbers are -1. */
ncclResult_t ncclDevCommCreate(ncclComm_t comm, const struct ncclDevCommRequirements* reqs,
                               struct ncclDevComm* outDevComm);
ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const struct ncclDevComm* devComm);
ncclTeam_t ncclTeamWorld(ncclComm_t comm);
ncclTeam_t ncclTeamLsa(ncclComm_t comm);
ncclTeam_t ncclTeamRail(ncclComm_t comm);
int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank);
int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank);
ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t team, int nBarriers,
                                             struct ncclLsaBarrierHandle* outHandle,
                                             struct ncclDevResourceRequirements* outReq);
ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t team, int nBarriers,
                                             struct ncclGinBarrierHandle* outHandle,
                                             struct ncclDevResourceRequirements* outReq);
int ncclLLA2ACalcSlots(int maxElts, int maxEltSize);
ncclResult_t ncclLLA2ACreateRequirement(int nBlocks, int nSlots, struct ncclLLA2AHandle* outHandle,
                                        struct ncclDevResourceRequirements* outReq);
ncclResult_t ncclCommQueryProperties(ncclComm_t comm, struct ncclCommProperties* props);
ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int lsaRank,
                                     void** outPtr);
ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void** outPtr);
ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void** outPtr);
ncclResult_t ncclGetMultimemDevicePointer(ncclWindow_t window, size_t offset,
                                          ncclMultimemHandle_t multimem, void** outPtr);
ncclResult_t ncclGinOutboxCreateRequirement(int nBlocks, int sizeLog2,
                                            struct ncclGinOutboxHandle* outHandle,
                                            struct ncclDevResourceRequirements* outReq);
ncclResult_t ncclGinInboxA2ACreateRequirement(ncclTeam_t peers, int nBlocks, int sizeLog2,
                                              struct ncclGinInboxA2AHandle* outHandle,
                                              struct ncclDevResourceRequirements* outReq);

/* 2.29 */
ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* uniqueId);
ncclResult_t ncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
                          ncclComm_t* newcomm, ncclConfig_t* config);
ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags);
ncclResult_t ncclCommResume(ncclComm_t comm);
ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value);
ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void** outUserPtr);
ncclResult_t ncclPutSignal(const void* localbuff, size_t count, ncclDataType_t datatype, int peer,
                           ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
                           unsigned int flags, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclSignal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                        cudaStream_t stream);
ncclResult_t ncclWaitSignal(int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm,
                            cudaStream_t stream);

/* 2.30 */
ncclResult_t ncclParamBind(ncclParamHandle_t* out, const char* key);
ncclResult_t ncclParamGetI8(ncclParamHandle_t handle, int8_t* out);
ncclResult_t ncclParamGetI16(ncclParamHandle_t handle, int16_t* out);
ncclResult_t ncclParamGetI32(ncclParamHandle_t handle, int32_t* out);
ncclResult_t ncclParamGetI64(ncclParamHandle_t handle, int64_t* out);
ncclResult_t ncclParamGetU8(ncclParamHandle_t handle, uint8_t* out);
ncclResult_t ncclParamGetU16(ncclParamHandle_t handle, uint16_t* out);
ncclResult_t ncclParamGetU32(ncclParamHandle_t handle, uint32_t* out);
ncclResult_t ncclParamGetU64(ncclParamHandle_t handle, uint64_t* out);
ncclResult_t ncclParamGetStr(ncclParamHandle_t handle, const char** out);
ncclResult_t ncclParamGet(ncclParamHandle_t handle, void* out, int maxLen, int* len);
ncclResult_t ncclParamGetParameter(const char* key, const char** value, int* valueLen);
ncclResult_t ncclParamGetAllParameterKeys(const char*** table, int* tableLen);
void ncclParamDumpAll(void);

/* 2.31 */
ncclResult_t ncclAllReduceConfig(const void* sendbuff, void* recvbuff, size_t count,
                                 ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                 cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclBroadcastConfig(const void* sendbuff, void* recvbuff, size_t count,
                                 ncclDataType_t datatype, int root, ncclComm_t comm,
                                 cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclReduceConfig(const void* sendbuff, void* recvbuff, size_t count,
                              ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                              cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclAllGatherConfig(const void* sendbuff, void* recvbuff, size_t sendcount,
                                 ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                                 const ncclCollConfig_t* config);
ncclResult_t ncclReduceScatterConfig(const void* sendbuff, void* recvbuff, size_t recvcount,
                                     ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                     cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclAlltoAllConfig(const void* sendbuff, void* recvbuff, size_t count,
                                ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                                const ncclCollConfig_t* config);
ncclResult_t ncclGatherConfig(const void* sendbuff, void* recvbuff, size_t count,
                              ncclDataType_t datatype, int root, ncclComm_t comm,
                              cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclScatterConfig(const void* sendbuff, void* recvbuff, size_t count,
                               ncclDataType_t datatype, int root, ncclComm_t comm,
                               cudaStream_t stream, const ncclCollConfig_t* config);

/* 2.32 */
ncclResult_t ncclSetEncryption(const ncclEncryptionConfig_t* config);
ncclTeam_t ncclTeamCft(ncclComm_t comm, ncclCftTeamMode_t mode);
ncclTeam_t ncclTeamCftMultimem(ncclComm_t comm);
ncclResult_t ncclGetCftDeviceLeInfo(ncclWindow_t window, size_t offset, int peerCft,
                                    ncclTeam_t cftTeam, ncclCftLeId* leId, size_t* leOffset);
ncclResult_t ncclGetPeerDeviceLeInfo(ncclWindow_t window, size_t offset, int peerWorld,
                                     ncclCftLeId* leId, size_t* leOffset);
ncclResult_t ncclGetMultimemDeviceLeInfo(ncclWindow_t window, size_t offset, ncclCftLeId* leId,
                                         size_t* leOffset);

/* ---- The same functions under the names that a profiler's nccl* wrappers call ------------- */

ncclResult_t pncclGetVersion(int* version);
ncclResult_t pncclGetUniqueId(ncclUniqueId* uniqueId);
const char* pncclGetErrorString(ncclResult_t result);
const char* pncclGetLastError(ncclComm_t comm);
void pncclResetDebugInit(void);
void pncclResetDebugInitInternal(void);
ncclResult_t pncclMemAlloc(void** ptr, size_t size);
ncclResult_t pncclMemFree(void* ptr);
ncclResult_t pncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank);
ncclResult_t pncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                     ncclConfig_t* config);
ncclResult_t pncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId,
                                       ncclUniqueId* commIds, ncclConfig_t* config);
ncclResult_t pncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist);
ncclResult_t pncclCommFinalize(ncclComm_t comm);
ncclResult_t pncclCommDestroy(ncclComm_t comm);
ncclResult_t pncclCommAbort(ncclComm_t comm);
ncclResult_t pncclCommRevoke(ncclComm_t comm, int revokeFlags);
ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                            ncclConfig_t* config);
ncclResult_t pncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                             ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags);
ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError);
ncclResult_t pncclCommCount(const ncclComm_t comm, int* count);
ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int* device);
ncclResult_t pncclCommUserRank(const ncclComm_t comm, int* rank);
ncclResult_t pncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle);
ncclResult_t pncclCommDeregister(const ncclComm_t comm, void* handle);
ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win,
                                     int winFlags);
ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win);
ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                       ncclScalarResidence_t residence, ncclComm_t comm);
ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);
ncclResult_t pncclReduce(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                         cudaStream_t stream);
ncclResult_t pncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root,
                        ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                            ncclDataType_t datatype, int root, ncclComm_t comm,
                            cudaStream_t stream);
ncclResult_t pncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                            ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                            cudaStream_t stream);
ncclResult_t pncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                cudaStream_t stream);
ncclResult_t pncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                            ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclGather(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclScatter(const void* sendbuff, void* recvbuff, size_t count,
                          ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                       ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                       ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclGroupStart(void);
ncclResult_t pncclGroupEnd(void);
ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t* simInfo);
ncclResult_t pncclDevCommCreate(ncclComm_t comm, const struct ncclDevCommRequirements* reqs,
                                struct ncclDevComm* outDevComm);
ncclResult_t pncclDevCommDestroy(ncclComm_t comm, const struct ncclDevComm* devComm);
ncclTeam_t pncclTeamWorld(ncclComm_t comm);
ncclTeam_t pncclTeamLsa(ncclComm_t comm);
ncclTeam_t pncclTeamRail(ncclComm_t comm);
int pncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank);
int pncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank);
ncclResult_t pncclLsaBarrierCreateRequirement(ncclTeam_t team, int nBarriers,
                                              struct ncclLsaBarrierHandle* outHandle,
                                              struct ncclDevResourceRequirements* outReq);
ncclResult_t pncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t team, int nBarriers,
                                              struct ncclGinBarrierHandle* outHandle,
                                              struct ncclDevResourceRequirements* outReq);
int pncclLLA2ACalcSlots(int maxElts, int maxEltSize);
ncclResult_t pncclLLA2ACreateRequirement(int nBlocks, int nSlots, struct ncclLLA2AHandle* outHandle,
                                         struct ncclDevResourceRequirements* outReq);
ncclResult_t pncclCommQueryProperties(ncclComm_t comm, struct ncclCommProperties* props);
ncclResult_t pncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int lsaRank,
                                      void** outPtr);
ncclResult_t pncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void** outPtr);
ncclResult_t pncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void** outPtr);
ncclResult_t pncclGetMultimemDevicePointer(ncclWindow_t window, size_t offset,
                                           ncclMultimemHandle_t multimem, void** outPtr);
ncclResult_t pncclGinOutboxCreateRequirement(int nBlocks, int sizeLog2,
                                             struct ncclGinOutboxHandle* outHandle,
                                             struct ncclDevResourceRequirements* outReq);
ncclResult_t pncclGinInboxA2ACreateRequirement(ncclTeam_t peers, int nBlocks, int sizeLog2,
                                               struct ncclGinInboxA2AHandle* outHandle,
                                               struct ncclDevResourceRequirements* outReq);
ncclResult_t pncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* uniqueId);
ncclResult_t pncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
                           ncclComm_t* newcomm, ncclConfig_t* config);
ncclResult_t pncclCommSuspend(ncclComm_t comm, int flags);
ncclResult_t pncclCommResume(ncclComm_t comm);
ncclResult_t pncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value);
ncclResult_t pncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void** outUserPtr);
ncclResult_t pncclPutSignal(const void* localbuff, size_t count, ncclDataType_t datatype, int peer,
                            ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
                            unsigned int flags, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclSignal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                         cudaStream_t stream);
ncclResult_t pncclWaitSignal(int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm,
                             cudaStream_t stream);
ncclResult_t pncclParamBind(ncclParamHandle_t* out, const char* key);
ncclResult_t pncclParamGetI8(ncclParamHandle_t handle, int8_t* out);
ncclResult_t pncclParamGetI16(ncclParamHandle_t handle, int16_t* out);
ncclResult_t pncclParamGetI32(ncclParamHandle_t handle, int32_t* out);
ncclResult_t pncclParamGetI64(ncclParamHandle_t handle, int64_t* out);
ncclResult_t pncclParamGetU8(ncclParamHandle_t handle, uint8_t* out);
ncclResult_t pncclParamGetU16(ncclParamHandle_t handle, uint16_t* out);
ncclResult_t pncclParamGetU32(ncclParamHandle_t handle, uint32_t* out);
ncclResult_t pncclParamGetU64(ncclParamHandle_t handle, uint64_t* out);
ncclResult_t pncclParamGetStr(ncclParamHandle_t handle, const char** out);
ncclResult_t pncclParamGet(ncclParamHandle_t handle, void* out, int maxLen, int* len);
ncclResult_t pncclParamGetParameter(const char* key, const char** value, int* valueLen);
ncclResult_t pncclParamGetAllParameterKeys(const char*** table, int* tableLen);
void pncclParamDumpAll(void);
ncclResult_t pncclAllReduceConfig(const void* sendbuff, void* recvbuff, size_t count,
                                  ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                  cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t pncclBroadcastConfig(const void* sendbuff, void* recvbuff, size_t count,
                                  ncclDataType_t datatype, int root, ncclComm_t comm,
                                  cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t pncclReduceConfig(const void* sendbuff, void* recvbuff, size_t count,
                               ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                               cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t pncclAllGatherConfig(const void* sendbuff, void* recvbuff, size_t sendcount,
                                  ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                                  const ncclCollConfig_t* config);
ncclResult_t pncclReduceScatterConfig(const void* sendbuff, void* recvbuff, size_t recvcount,
                                      ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                      cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t pncclAlltoAllConfig(const void* sendbuff, void* recvbuff, size_t count,
                                 ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                                 const ncclCollConfig_t* config);
ncclResult_t pncclGatherConfig(const void* sendbuff, void* recvbuff, size_t count,
                               ncclDataType_t datatype, int root, ncclComm_t comm,
                               cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t pncclScatterConfig(const void* sendbuff, void* recvbuff, size_t count,
                                ncclDataType_t datatype, int root, ncclComm_t comm,
                                cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t pncclSetEncryption(const ncclEncryptionConfig_t* config);
ncclTeam_t pncclTeamCft(ncclComm_t comm, ncclCftTeamMode_t mode);
ncclTeam_t pncclTeamCftMultimem(ncclComm_t comm);
ncclResult_t pncclGetCftDeviceLeInfo(ncclWindow_t window, size_t offset, int peerCft,
                                     ncclTeam_t cftTeam, ncclCftLeId* leId, size_t* leOffset);
ncclResult_t pncclGetPeerDeviceLeInfo(ncclWindow_t window, size_t offset, int peerWorld,
                                      ncclCftLeId* leId, size_t* leOffset);
ncclResult_t pncclGetMultimemDeviceLeInfo(ncclWindow_t window, size_t offset, ncclCftLeId* leId,
                                          size_t* leOffset);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* NCCL_H_ */
