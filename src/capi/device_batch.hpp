// Calls on GPU buffers that are put onto their streams together: one call, or all of a group.
#pragma once

#include <memory>
#include <vector>

#include "nccl.h"
#include "src/capi/comm.hpp"
#include "tutti/error.hpp"

namespace tutti::capi {

/// Collected by one thread, then launched once.
class DeviceBatch {
 public:
  /// `handle` is pinned, and a CUDA communicator's.
  void add(ncclComm* handle, cudaStream_t stream, const Call& call);
  [[nodiscard]] bool empty() const { return shares_.empty(); }
  /// check_group() of each communicator's calls.
  [[nodiscard]] Status check() const;

  /// Enqueues everything and returns; the calls run in the order of their streams. An error while
  /// they run ends the communicator, and ncclCommGetAsyncError tells it. `function` names the
  /// caller. The batch must pass check().
  Status launch(const char* function) const;

 private:
  /// What one communicator contributes.
  struct Share {
    CommRef comm;
    std::vector<Call> calls;
    std::vector<cudaStream_t> streams;  ///< each once
  };
  std::vector<Share> shares_;
};

}  // namespace tutti::capi
