// Ranks that one thread drives through the C API, so that nothing it does is waiting.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "nccl.h"

namespace perf {

inline void check(ncclResult_t result) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "%s: %s\n", ncclGetErrorString(result), ncclGetLastError(nullptr));
  std::exit(1);
}

/// Communicators of one job, all of this thread, with room for `bytes` each way.
class Ranks {
 public:
  Ranks(std::size_t ranks, std::size_t bytes) : comms_(ranks), buffers_(2 * ranks) {
    for (auto& buffer : buffers_) buffer.resize(bytes / sizeof(double));
    check(ncclCommInitAll(comms_.data(), static_cast<int>(ranks), nullptr));
  }
  ~Ranks() {
    check(ncclGroupStart());
    for (ncclComm_t comm : comms_) check(ncclCommDestroy(comm));
    check(ncclGroupEnd());
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  void call(std::size_t rank, ncclDataType_t type, std::size_t count) {
    check(ncclAllReduce(buffers_[2 * rank].data(), buffers_[2 * rank + 1].data(), count, type,
                        ncclSum, comms_[rank], nullptr));
  }
  void call_all(ncclDataType_t type, std::size_t count) {
    check(ncclGroupStart());
    for (std::size_t rank = 0; rank < comms_.size(); ++rank) call(rank, type, count);
    check(ncclGroupEnd());
  }

 private:
  std::vector<ncclComm_t> comms_;
  std::vector<std::vector<double>> buffers_;  // a send and a receive buffer a rank
};

}  // namespace perf
