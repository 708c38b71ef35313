// NCCL_COMM_BLOCKING overrides what the caller's configuration says, as NCCL's does.
#include <cstdlib>

#include <gtest/gtest.h>
#include <sched.h>

#include "nccl.h"

namespace {

// Read by the library when it is used first.
[[maybe_unused]] const int kBlocking = setenv("NCCL_COMM_BLOCKING", "0", 1);

ncclResult_t settled(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (ncclCommGetAsyncError(comm, &state) == ncclSuccess && state == ncclInProgress)
    ::sched_yield();
  return state;
}

TEST(CommBlocking, InitsOfAnyConfigurationReturnAtOnce) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  for (ncclConfig_t* asked : {static_cast<ncclConfig_t*>(nullptr), &config}) {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, asked), ncclInProgress);
    EXPECT_EQ(settled(comm), ncclSuccess);

    ncclComm_t child = nullptr;
    EXPECT_EQ(ncclCommSplit(comm, 0, 0, &child, asked), ncclInProgress);
    EXPECT_EQ(settled(child), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(child), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  }
}

TEST(CommBlocking, HoldsForAllRanksOfAProcessAndTheirCalls) {
  ncclComm_t comms[2] = {};
  EXPECT_EQ(ncclCommInitAll(comms, 2, nullptr), ncclInProgress);
  for (const ncclComm_t comm : comms) EXPECT_EQ(settled(comm), ncclSuccess);
  float in = 1, out[2] = {};
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_EQ(ncclAllReduce(&in, &out[rank], 1, ncclFloat, ncclSum, comms[rank], nullptr),
              ncclInProgress);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(settled(comms[rank]), ncclSuccess);
    EXPECT_EQ(out[rank], 2);
    EXPECT_EQ(ncclCommDestroy(comms[rank]), ncclSuccess);
  }
}

}  // namespace
