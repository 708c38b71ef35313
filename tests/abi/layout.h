/* The layouts of NCCL 2.28.9 on 64-bit machines, checked when compiled. For C and C++. */
#ifndef TESTS_ABI_LAYOUT_H_
#define TESTS_ABI_LAYOUT_H_

#include "nccl.h"

#ifdef __cplusplus
#define CHECK_THAT(name, condition) static_assert(condition, #name)
#else
#define CHECK_THAT(name, condition) typedef char check_##name[(condition) ? 1 : -1]
#endif
#define CHECK_OFFSET(field, bytes) \
  CHECK_THAT(offset_of_##field, offsetof(ncclConfig_t, field) == (bytes))

CHECK_THAT(version, NCCL_VERSION_CODE == 22809);
CHECK_THAT(version_macro, NCCL_VERSION(2, 28, 9) == 22809);
CHECK_THAT(old_version_macro, NCCL_VERSION(2, 8, 4) == 2804);
CHECK_THAT(unique_id, sizeof(ncclUniqueId) == 128);
CHECK_THAT(config, sizeof(ncclConfig_t) == 80);
CHECK_OFFSET(size, 0);
CHECK_OFFSET(magic, 8);
CHECK_OFFSET(version, 12);
CHECK_OFFSET(blocking, 16);
CHECK_OFFSET(cgaClusterSize, 20);
CHECK_OFFSET(minCTAs, 24);
CHECK_OFFSET(maxCTAs, 28);
CHECK_OFFSET(netName, 32);
CHECK_OFFSET(splitShare, 40);
CHECK_OFFSET(trafficClass, 44);
CHECK_OFFSET(commName, 48);
CHECK_OFFSET(collnetEnable, 56);
CHECK_OFFSET(CTAPolicy, 60);
CHECK_OFFSET(shrinkShare, 64);
CHECK_OFFSET(nvlsCTAs, 68);
CHECK_OFFSET(nChannelsPerNetPeer, 72);
CHECK_OFFSET(nvlinkCentricSched, 76);
CHECK_THAT(sim_info, sizeof(ncclSimInfo_t) == 24);
CHECK_THAT(sim_time, offsetof(ncclSimInfo_t, estimatedTime) == 16);
CHECK_THAT(enums, sizeof(ncclResult_t) == 4 && sizeof(ncclDataType_t) == 4 &&
                      sizeof(ncclRedOp_t) == 4 && sizeof(ncclScalarResidence_t) == 4);
CHECK_THAT(results, ncclSuccess == 0 && ncclUnhandledCudaError == 1 && ncclSystemError == 2 &&
                        ncclInternalError == 3 && ncclInvalidArgument == 4 &&
                        ncclInvalidUsage == 5 && ncclRemoteError == 6 && ncclInProgress == 7 &&
                        ncclNumResults == 8);
CHECK_THAT(types, ncclInt8 == 0 && ncclChar == 0 && ncclUint8 == 1 && ncclInt32 == 2 &&
                      ncclInt == 2 && ncclUint32 == 3 && ncclInt64 == 4 && ncclUint64 == 5 &&
                      ncclFloat16 == 6 && ncclHalf == 6 && ncclFloat32 == 7 && ncclFloat == 7 &&
                      ncclFloat64 == 8 && ncclDouble == 8 && ncclBfloat16 == 9 &&
                      ncclFloat8e4m3 == 10 && ncclFloat8e5m2 == 11 && ncclNumTypes == 12);
CHECK_THAT(ops, ncclSum == 0 && ncclProd == 1 && ncclMax == 2 && ncclMin == 3 && ncclAvg == 4 &&
                    ncclNumOps == 5 && ncclMaxRedOp == 0x7fffffff);

#endif
