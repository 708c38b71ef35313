// Communicators come and go: the steps that init, split, shrink, finalize and destroy share.
#pragma once

#include <functional>
#include <memory>

#include "nccl.h"
#include "src/base/clock.hpp"
#include "src/capi/config.hpp"
#include "src/capi/group.hpp"
#include "src/comm/group_member.hpp"
#include "src/comm/runtime.hpp"
#include "tutti/error.hpp"

namespace tutti::capi {

/// Makes a communicator. May wait for a turn first, then blocks for `limit` at most, and not once
/// `aborted` is raised.
using Maker = std::function<Result<std::unique_ptr<Communicator>>(
    const CommunicatorOptions& options, Nanos limit, const Cancellation& aborted)>;

/// How long init, split, shrink, finalize and destroy may take: TUTTI_INIT_TIMEOUT.
Result<Nanos> init_limit();

/// *newcomm = handle. Another thread may read it meanwhile, to abort the communicator.
void show(ncclComm_t* newcomm, ncclComm* handle);

/// Stores a handle in *newcomm and runs `make` for it: now, at the end of the open group, or in the
/// background when config.blocking is false. When it fails here, *newcomm is NULL again.
/// `timeout_s` <= 0: TUTTI_INIT_TIMEOUT.
Result<ncclResult_t> begin(const char* function, ncclComm_t* newcomm, const CommConfig& config,
                           Maker make, double timeout_s = 0);

/// Runs `job` now or, when a group is open, as it ends.
Result<ncclResult_t> run_ending(Job job);

/// Flushes in turn and says goodbye.
Status finalize(const CommRef& comm);

/// Waits for all calls, then frees. `abort` ends them first, as does TUTTI_INIT_TIMEOUT: kTimeout
/// then. kInvalidArgument when another thread was faster.
Status end_comm(const CommRef& comm, bool abort);

}  // namespace tutti::capi
