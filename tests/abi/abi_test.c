/* A C99 program against nccl.h and libnccl.so.2: what must work before there is any communicator.
 */
#include <stdio.h>
#include <string.h>

#include "tests/abi/layout.h"

static int failures = 0;

#define EXPECT(condition)                                    \
  do {                                                       \
    if (!(condition)) {                                      \
      printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                            \
    }                                                        \
  } while (0)

static void check_versions(void) {
  int version = 0;
  EXPECT(ncclGetVersion(&version) == ncclSuccess);
  EXPECT(version == NCCL_VERSION_CODE);
  EXPECT(pncclGetVersion(&version) == ncclSuccess);
  EXPECT(ncclGetVersion(NULL) == ncclInvalidArgument);
  EXPECT(strstr(ncclGetLastError(NULL), "ncclGetVersion") != NULL);
}

static void check_error_strings(void) {
  static const char* const expected[] = {
      "no error",
      "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
      "unhandled system error (run with NCCL_DEBUG=INFO for details)",
      "internal error - please report this issue to the NCCL developers",
      "invalid argument (run with NCCL_DEBUG=WARN for details)",
      "invalid usage (run with NCCL_DEBUG=WARN for details)",
      "remote process exited or there was a network error",
      "NCCL operation in progress",
      "unknown result code",
  };
  int code;
  for (code = 0; code <= ncclNumResults; ++code) {
    EXPECT(strcmp(ncclGetErrorString((ncclResult_t)code), expected[code]) == 0);
  }
}

static void check_initializers(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  EXPECT(config.size == 80 && config.magic == 0xcafebeef && config.version == 22809);
  EXPECT(config.blocking == NCCL_CONFIG_UNDEF_INT && config.netName == NULL);
  EXPECT(config.nvlinkCentricSched == NCCL_CONFIG_UNDEF_INT);
  EXPECT(info.size == 24 && info.magic == 0x74685283 && info.estimatedTime == NCCL_UNDEF_FLOAT);
}

static void check_bad_arguments(void) {
  ncclComm_t comm = NULL;
  ncclUniqueId id;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  memset(&id, 0, sizeof id);
  EXPECT(ncclCommInitRank(NULL, 1, id, 0) == ncclInvalidArgument);
  EXPECT(ncclCommInitRank(&comm, 0, id, 0) == ncclInvalidArgument);
  EXPECT(ncclCommInitRank(&comm, 2, id, 2) == ncclInvalidArgument);
  EXPECT(ncclCommInitRank(&comm, 1, id, 0) == ncclInvalidArgument); /* zeros are no id */
  EXPECT(comm == NULL);
  config.magic = 1;
  EXPECT(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclInvalidArgument);
  EXPECT(ncclCommInitRankScalable(&comm, 2, 0, 3, &id, NULL) == ncclInvalidArgument);
  EXPECT(ncclCommInitAll(&comm, 0, NULL) == ncclInvalidArgument);
  EXPECT(ncclAllReduce(NULL, NULL, 0, ncclFloat, ncclSum, NULL, NULL) == ncclInvalidArgument);
  EXPECT(ncclCommDestroy(NULL) == ncclSuccess);
  EXPECT(ncclGroupEnd() == ncclInvalidUsage);
}

static void check_memory(void) {
  void* memory = NULL;
  EXPECT(ncclMemAlloc(&memory, 100000) == ncclSuccess);
  EXPECT(memory != NULL && (size_t)memory % 4096 == 0);
  if (memory != NULL) memset(memory, 7, 100000);
  EXPECT(ncclMemFree(memory) == ncclSuccess);
  EXPECT(ncclMemFree(memory) == ncclInvalidArgument);
  EXPECT(ncclMemFree(NULL) == ncclSuccess);
  EXPECT(ncclMemAlloc(&memory, 0) == ncclSuccess && memory == NULL);
}

static void check_absent(void) {
  EXPECT(ncclCommSuspend(NULL, 1) == ncclInvalidUsage);
  EXPECT(strstr(ncclGetLastError(NULL), "ncclCommSuspend") != NULL);
  EXPECT(ncclDevCommCreate(NULL, NULL, NULL) == ncclInvalidUsage);
  EXPECT(ncclAllReduceConfig(NULL, NULL, 0, ncclFloat, ncclSum, NULL, NULL, NULL) ==
         ncclInvalidUsage);
}

int main(void) {
  check_versions();
  check_error_strings();
  check_initializers();
  check_bad_arguments();
  check_memory();
  check_absent();
  return failures == 0 ? 0 : 1;
}
