// An nccl* collective as the caller wrote it.
#pragma once

#include <cstddef>

#include "nccl.h"
#include "src/comm/call.hpp"

namespace tutti::capi {

/// The arguments of any collective or message, as they came: nothing is trusted.
struct RawCall {
  Collective collective = Collective::kAllReduce;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  int type = 0;
  int op = ncclSum;
  int root = 0;  ///< or peer
  friend bool operator==(const RawCall&, const RawCall&) = default;
};

/// Blocks of one buffer as they came: arrays of an entry for each rank.
struct RawBlocks {
  const char* name;  ///< of the counts, for error texts
  const std::size_t* counts = nullptr;
  const std::size_t* displacements = nullptr;  ///< null: without gaps, in order
};

/// The last call that was found valid. The same arguments need no second check.
struct CheckedCall {
  RawCall raw;
  Call call;
  bool lasts = false;  ///< `raw` alone decides what `call` is
};

}  // namespace tutti::capi
