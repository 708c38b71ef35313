// The one Process. ncclMemAlloc, ncclGetUniqueId and ncclGroupStart have no communicator as an
// argument, so they find here what they need. Everything below src/capi takes it as an argument.
//
// Forks: threads do not survive fork(). If the parent had used the library, every function that
// needs threads fails in the child and says so. Call exec first, or fork before the first call.
#pragma once

#include <memory>
#include <mutex>

#include "nccl.h"
#include "src/capi/comm.hpp"
#include "src/capi/compression.hpp"
#include "src/capi/group.hpp"
#include "src/capi/stream.hpp"
#include "src/comm/runtime.hpp"
#include "tutti/error.hpp"

namespace tutti::capi {

/// Resource, thread-safe, lives until the process ends.
class Process {
 public:
  /// Made on first use. A failure is returned, and the next call tries again.
  Result<std::shared_ptr<Runtime>> runtime();

  HandleTable handles;
  StreamTable streams;
  CompressionTable compressions;

  /// Held while one batch is put on several streams. So two batches have the same order on each.
  std::mutex dispatching;

 private:
  std::mutex mutex_;
  std::shared_ptr<Runtime> runtime_;
  bool watches_forks_ = false;
};

Process& process();

/// Whether this is a forked child of a process that had used the library.
bool is_forked();
/// kInvalidUsage there.
Status check_not_forked();

/// The calls between ncclGroupStart and ncclGroupEnd on this thread.
inline Group& this_thread_group() {
  thread_local Group group;
  return group;
}

}  // namespace tutti::capi
