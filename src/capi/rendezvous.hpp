// Ways to meet the other ranks. Each is a function that makes a Bootstrap.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nccl.h"
#include "src/base/clock.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/comm/runtime.hpp"
#include "tutti/error.hpp"

namespace tutti::capi {

using Rendezvous =
    std::function<Result<std::unique_ptr<Bootstrap>>(const Runtime& runtime, Deadline deadline)>;

/// Whether init waits for late ranks without limit, while the process that made the unique id
/// lives: TUTTI_INIT_TIMEOUT is not set.
bool is_patient(const Settings& settings);

/// Starts a rendezvous that this process serves.
Result<ncclUniqueId> new_unique_id(const Runtime& runtime);

Rendezvous meet_by_ids(std::vector<ncclUniqueId> ids, int ranks, Rank rank);
/// `url` "" detects the launcher. `is_bounded`: late ranks are not waited for beyond the deadline.
Rendezvous meet_by_launcher(std::string url, bool is_bounded);
/// One Rendezvous a rank, for ranks that are all in this process.
std::vector<Rendezvous> meet_in_process(int ranks);

}  // namespace tutti::capi
