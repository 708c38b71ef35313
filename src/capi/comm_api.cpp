// tuttiNccl*: communicators, from unique id to destroy.
#include <algorithm>
#include <vector>

#include "src/capi/answer.hpp"
#include "src/capi/errors.hpp"
#include "src/capi/lifecycle.hpp"
#include "src/capi/process.hpp"
#include "src/capi/rendezvous.hpp"
#include "src/comm/communicator.hpp"
#include "tutti/tutti.h"

namespace tutti::capi {
namespace {

constexpr int kMostRanks = 1 << 20;  // far above any job; keeps sizes from garbage bounded

Status check_world(int ranks, int rank) {
  if (ranks < 1 || ranks > kMostRanks) {
    return make_error(Code::kInvalidArgument, "nranks is {}, not between 1 and {}", ranks,
                      kMostRanks);
  }
  if (rank < 0 || rank >= ranks) {
    return make_error(Code::kInvalidArgument, "rank is {}, not between 0 and {}", rank, ranks - 1);
  }
  return ok_status();
}

/// `is_bounded`: by a limit of the caller's.
Maker maker_of(Rendezvous meeting, bool is_bounded = false) {
  return [meeting = std::move(meeting), is_bounded](
             const CommunicatorOptions& options, Nanos limit,
             const Cancellation& aborted) -> Result<std::unique_ptr<Communicator>> {
    const Deadline deadline = Deadline::after(limit).unless(aborted);
    TUTTI_ASSIGN(const auto runtime, process().runtime());
    TUTTI_ASSIGN(auto bootstrap, meeting(*runtime, deadline));
    const bool waited_without_limit = !is_bounded && is_patient(runtime->settings);
    return Communicator::create(
        runtime, std::move(bootstrap), options,
        waited_without_limit ? Deadline::after(limit).unless(aborted) : deadline);
  };
}

/// What `config` asks for, but for what the environment overrides.
Result<CommConfig> wanted(const ncclConfig_t* config, const CommConfig& defaults) {
  TUTTI_ASSIGN(CommConfig parsed, parse_config(config, defaults));
  TUTTI_ASSIGN(const auto runtime, process().runtime());
  const std::string& blocking = runtime->settings.text("COMM_BLOCKING");
  if (blocking != "config") parsed.blocking = blocking == "1";
  if (!parsed.device) {
    TUTTI_ASSIGN(parsed.device, current_device(*runtime));
  }
  return parsed;
}

/// Clears *newcomm first, so that a failed init leaves NULL.
Result<ncclResult_t> init_rank(const char* function, ncclComm_t* newcomm, int ranks, int rank,
                               std::vector<ncclUniqueId> ids, const ncclConfig_t* config) {
  TUTTI_TRY(check_not_forked());
  TUTTI_TRY(check_out(newcomm, "comm"));
  show(newcomm, nullptr);
  TUTTI_TRY(check_world(ranks, rank));
  TUTTI_ASSIGN(const CommConfig parsed, wanted(config, {}));
  return begin(function, newcomm, parsed, maker_of(meet_by_ids(std::move(ids), ranks, rank)));
}

/// On host communicators: the list plays no part, and yet a mistake in it is one.
Status check_devices(int count, const int* devices) {
  if (devices == nullptr) return ok_status();
  std::vector<int> sorted(devices, devices + count);
  std::ranges::sort(sorted);
  if (sorted.front() < 0) {
    return make_error(Code::kInvalidArgument, "devlist names device {}", sorted.front());
  }
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end()) {
    return make_error(Code::kInvalidUsage, "devlist names device {} twice", *twice);
  }
  return ok_status();
}

Result<CommRef> find(ncclComm* handle) {
  const Pin pin(handle);
  TUTTI_TRY(check_live(handle, pin));
  return CommRef(handle);
}

/// The GPU of each rank; several may have the same. Without a list they take turns at all GPUs.
Result<std::vector<std::optional<int>>> choose_devices(int count, const int* devices) {
  if (count < 1 || count > kMostRanks) {
    return make_error(Code::kInvalidArgument, "ndev is {}, not between 1 and {}", count,
                      kMostRanks);
  }
  TUTTI_ASSIGN(const auto runtime, process().runtime());
  const int gpus = device_count(*runtime);
  if (gpus == 0) {
    TUTTI_TRY(check_devices(count, devices));
    return std::vector<std::optional<int>>(count);
  }
  std::vector<std::optional<int>> chosen;
  for (int rank = 0; rank < count; ++rank) {
    const int device = devices == nullptr ? rank % gpus : devices[rank];
    if (device < 0 || device >= gpus) {
      return make_error(Code::kInvalidArgument,
                        "devlist[{}] is {}, and this process sees the GPUs 0..{}", rank, device,
                        gpus - 1);
    }
    chosen.emplace_back(device);
  }
  return chosen;
}

Result<ncclResult_t> init_all(ncclComm_t* comms, int count, const int* devices) {
  TUTTI_TRY(check_not_forked());
  TUTTI_TRY(check_out(comms, "comm"));
  TUTTI_ASSIGN(const auto chosen, choose_devices(count, devices));
  std::fill_n(comms, count, nullptr);
  TUTTI_ASSIGN(CommConfig parsed, wanted(nullptr, {}));
  Group& group = this_thread_group();
  group.start();
  const std::vector<Rendezvous> meetings = meet_in_process(count);
  for (int rank = 0; rank < count; ++rank) {
    parsed.device = chosen[rank];
    const auto added = begin("ncclCommInitAll", &comms[rank], parsed, maker_of(meetings[rank]));
    if (!added) group.fail(added.error());
  }
  Result<ncclResult_t> outcome = group.end();
  if (outcome) return outcome;
  for (int rank = 0; rank < count; ++rank) {  // some may have come to life: all or none
    if (ncclComm* const survivor = std::exchange(comms[rank], nullptr)) {
      if (const auto comm = find(survivor)) (void)end_comm(*comm, /*abort=*/true);
    }
  }
  return outcome;
}

/// What makes a communicator of the parent's ranks, in the turn that the parent gives it now: the
/// parent's end waits for it, and aborting the parent ends it.
template <class Make>
Result<Maker> in_turn_of(ncclComm* parent, Make make) {
  TUTTI_ASSIGN(const auto turn, reserve_turn(CommRef(parent)));
  Maker maker = [parent, make, turn](
                    const CommunicatorOptions& options, Nanos limit,
                    const Cancellation& aborted) -> Result<std::unique_ptr<Communicator>> {
    const Error over = make_error(Code::kAborted, "the parent was aborted meanwhile");
    if (!turn->enter(Deadline::never().unless(aborted))) return over;
    Comm& family = *parent->comm;
    const Cancellation either(&aborted, &family.aborted);
    auto made = make(*family.member, options, Deadline::after(limit).unless(either));
    const bool parent_aborted = family.aborted.raised();
    turn->leave();
    if (!made && parent_aborted) return over;
    return made;
  };
  return maker;
}

/// A split whose rank joins no group: takes part in the exchange, makes no handle.
Result<ncclResult_t> split_off(ncclComm* parent, const Maker& make) {
  Job job{"ncclCommSplit", CommRef(parent), [make]() -> Status {
            TUTTI_ASSIGN(const Nanos limit, init_limit());
            TUTTI_ASSIGN(const auto none, make({}, limit, Cancellation()));
            TUTTI_CHECK(none == nullptr, "a rank without a color got a communicator");
            return ok_status();
          }};
  Group& group = this_thread_group();
  if (!group.open()) return run_jobs({std::move(job)});
  group.add_beginning(std::move(job));
  return ncclSuccess;
}

Result<ncclResult_t> split(ncclComm* parent, int color, int key, ncclComm_t* newcomm,
                           const ncclConfig_t* config) {
  TUTTI_TRY(check_ready(*parent->comm));
  TUTTI_TRY(check_out(newcomm, "newcomm"));
  show(newcomm, nullptr);
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR) {
    return make_error(Code::kInvalidArgument, "color is {}, neither NCCL_SPLIT_NOCOLOR nor >= 0",
                      color);
  }
  TUTTI_ASSIGN(const CommConfig parsed, wanted(config, parent->comm->config));
  TUTTI_ASSIGN(Maker make,
               in_turn_of(parent, [color, key](GroupMember& family,
                                               const CommunicatorOptions& options, Deadline limit) {
                 return family.split(color, key, options, limit);
               }));
  if (color >= 0) return begin("ncclCommSplit", newcomm, parsed, std::move(make));
  return split_off(parent, make);
}

/// The sorted list, checked.
Result<std::vector<Rank>> check_excluded(const Comm& comm, int* list, int count) {
  TUTTI_TRY(check_out(list, "excludeRanksList"));
  if (count < 1 || count >= comm.size) {
    return make_error(Code::kInvalidArgument,
                      "excludeRanksCount is {}, not between 1 and {} (of {} ranks one must stay)",
                      count, comm.size - 1, comm.size);
  }
  std::sort(list, list + count);
  if (list[0] < 0 || list[count - 1] >= comm.size) {
    return make_error(Code::kInvalidArgument, "excludeRanksList holds {}, not a rank (0..{})",
                      list[0] < 0 ? list[0] : list[count - 1], comm.size - 1);
  }
  if (const int* twice = std::adjacent_find(list, list + count); twice != list + count) {
    return make_error(Code::kInvalidArgument, "excludeRanksList holds rank {} twice", *twice);
  }
  if (std::binary_search(list, list + count, comm.rank)) {
    return make_error(Code::kInvalidArgument,
                      "excludeRanksList holds the calling rank {}: excluded ranks must not call",
                      comm.rank);
  }
  return std::vector<Rank>(list, list + count);
}

Result<ncclResult_t> shrink(ncclComm* parent, int* list, int count, ncclComm_t* newcomm,
                            const ncclConfig_t* config, int flags) {
  // With NCCL_SHRINK_ABORT a call may hang in the background: that is what the flag is for.
  TUTTI_TRY(flags == NCCL_SHRINK_ABORT ? check_made(*parent->comm) : check_ready(*parent->comm));
  TUTTI_TRY(check_out(newcomm, "newcomm"));
  show(newcomm, nullptr);
  TUTTI_ASSIGN(const std::vector<Rank> excluded, check_excluded(*parent->comm, list, count));
  if (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT) {
    return make_error(Code::kInvalidArgument,
                      "shrinkFlags is {:#x}, neither NCCL_SHRINK_DEFAULT nor NCCL_SHRINK_ABORT",
                      flags);
  }
  TUTTI_ASSIGN(const CommConfig parsed, wanted(config, parent->comm->config));
  if (flags == NCCL_SHRINK_ABORT) {
    parent->comm->member->abort(make_error(Code::kAborted,
                                           "rank {} called ncclCommShrink with NCCL_SHRINK_ABORT",
                                           parent->comm->rank));
  }
  TUTTI_ASSIGN(Maker make,
               in_turn_of(parent, [excluded](GroupMember& family,
                                             const CommunicatorOptions& options, Deadline limit) {
                 return family.shrink(excluded, options, limit);
               }));
  return begin("ncclCommShrink", newcomm, parsed, std::move(make));
}

Result<ncclResult_t> revoke(ncclComm* handle, int flags) {
  Comm& comm = *handle->comm;
  TUTTI_TRY(check_made(comm));
  if (flags != NCCL_REVOKE_DEFAULT) {
    return make_error(Code::kInvalidArgument, "revokeFlags is {:#x}, not NCCL_REVOKE_DEFAULT",
                      flags);
  }
  auto expected = Comm::Phase::kReady;
  if (!comm.phase.compare_exchange_strong(expected, Comm::Phase::kRevoked)) {
    return make_error(Code::kInvalidArgument, "the communicator was {} already",
                      expected == Comm::Phase::kRevoked ? "revoked" : "finalized");
  }
  comm.member->abort(make_error(Code::kAborted, "rank {} called ncclCommRevoke", comm.rank));
  comm.stream_turns.end();
  // What an open group holds back has its turn when the group ends.
  if (!this_thread_group().open()) handle->turns.drain();
  return ncclSuccess;
}

Result<ncclResult_t> finalize_call(ncclComm* handle) {
  TUTTI_TRY(check_ready(*handle->comm));
  auto expected = Comm::Phase::kReady;
  if (!handle->comm->phase.compare_exchange_strong(expected, Comm::Phase::kFinalized)) {
    return make_error(Code::kInvalidArgument, "the communicator was {} already",
                      expected == Comm::Phase::kRevoked ? "revoked" : "finalized");
  }
  const CommRef comm(handle);
  return run_ending({"ncclCommFinalize", comm, [comm] { return finalize(comm); }});
}

/// destroy and abort, which wait for pins and hold none: NULL is fine.
Result<ncclResult_t> end_call(const char* function, ncclComm* handle, bool abort) {
  if (handle == nullptr) return ncclSuccess;
  TUTTI_ASSIGN(const CommRef comm, find(handle));
  return run_ending({function, comm, [comm, abort] { return end_comm(comm, abort); }, [] {},
                     /*always_blocks=*/true});
}

Result<ncclResult_t> async_error(const ncclComm* handle, ncclResult_t* state) {
  TUTTI_TRY(check_out(state, "asyncError"));
  Comm& comm = *handle->comm;
  if (comm.background.load(std::memory_order_acquire) > 0) {
    *state = ncclInProgress;
  } else if (const Status health = comm.health(); !health) {
    *state = to_nccl(health.error().code);
    comm.note("ncclCommGetAsyncError", health.error());
  } else {
    *state = ncclSuccess;
  }
  return ncclSuccess;
}

/// A getter of an int.
template <class Read>
ncclResult_t get(const char* function, const ncclComm* handle, int* out, const char* name,
                 Read&& read) {
  return answer_for(function, handle, [&]() -> Result<ncclResult_t> {
    TUTTI_TRY(check_ready(*handle->comm));
    TUTTI_TRY(check_out(out, name));
    *out = read(*handle->comm);
    return ncclSuccess;
  });
}

}  // namespace
}  // namespace tutti::capi

using namespace tutti::capi;  // NOLINT(*-using-namespace): this file is the outside of that
                              // namespace
using tutti::Result;

ncclResult_t tuttiNcclGetUniqueId(ncclUniqueId* uniqueId) {
  return answer("ncclGetUniqueId", nullptr, [&]() -> Result<ncclResult_t> {
    TUTTI_TRY(check_out(uniqueId, "uniqueId"));
    TUTTI_ASSIGN(const auto runtime, process().runtime());
    TUTTI_ASSIGN(*uniqueId, new_unique_id(*runtime));
    return ncclSuccess;
  });
}

ncclResult_t tuttiNcclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  return answer("ncclCommInitRank", nullptr, [&] {
    return init_rank("ncclCommInitRank", comm, nranks, rank, {commId}, nullptr);
  });
}

ncclResult_t tuttiNcclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId,
                                         int rank, ncclConfig_t* config) {
  return answer("ncclCommInitRankConfig", nullptr, [&] {
    return init_rank("ncclCommInitRankConfig", comm, nranks, rank, {commId}, config);
  });
}

ncclResult_t tuttiNcclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId,
                                           ncclUniqueId* commIds, ncclConfig_t* config) {
  constexpr const char* kName = "ncclCommInitRankScalable";
  return answer(kName, nullptr, [&]() -> Result<ncclResult_t> {
    TUTTI_TRY(check_out(commIds, "commIds"));
    if (nId < 1 || nId > nranks) {
      return tutti::make_error(tutti::Code::kInvalidArgument,
                               "nId is {}, not between 1 and nranks ({})", nId, nranks);
    }
    return init_rank(kName, newcomm, nranks, myrank, {commIds, commIds + nId}, config);
  });
}

ncclResult_t tuttiNcclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  return answer("ncclCommInitAll", nullptr, [&] { return init_all(comm, ndev, devlist); });
}

ncclResult_t tuttiCommInitFromEnvironment(ncclComm_t* comm, const char* url, double timeout_s) {
  constexpr const char* kName = "tuttiCommInitFromEnvironment";
  return answer(kName, nullptr, [&]() -> Result<ncclResult_t> {
    TUTTI_TRY(check_not_forked());
    TUTTI_TRY(check_out(comm, "comm"));
    show(comm, nullptr);
    TUTTI_ASSIGN(const CommConfig config, wanted(nullptr, {}));
    return begin(
        kName, comm, config,
        maker_of(meet_by_launcher(url == nullptr ? "" : url, timeout_s > 0), timeout_s > 0),
        timeout_s);
  });
}

ncclResult_t tuttiNcclCommFinalize(ncclComm_t comm) {
  return answer_for("ncclCommFinalize", comm, [&] { return finalize_call(comm); });
}

ncclResult_t tuttiNcclCommDestroy(ncclComm_t comm) {
  return answer("ncclCommDestroy", nullptr,
                [&] { return end_call("ncclCommDestroy", comm, false); });
}

ncclResult_t tuttiNcclCommAbort(ncclComm_t comm) {
  return answer("ncclCommAbort", nullptr, [&] { return end_call("ncclCommAbort", comm, true); });
}

ncclResult_t tuttiNcclCommRevoke(ncclComm_t comm, int revokeFlags) {
  return answer_for("ncclCommRevoke", comm, [&] { return revoke(comm, revokeFlags); });
}

ncclResult_t tuttiNcclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                                ncclConfig_t* config) {
  return answer_for("ncclCommSplit", comm,
                    [&] { return split(comm, color, key, newcomm, config); });
}

ncclResult_t tuttiNcclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                                 ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags) {
  return answer_for("ncclCommShrink", comm, [&] {
    return shrink(comm, excludeRanksList, excludeRanksCount, newcomm, config, shrinkFlags);
  });
}

ncclResult_t tuttiNcclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  return answer_for("ncclCommGetAsyncError", comm, [&] { return async_error(comm, asyncError); });
}

ncclResult_t tuttiNcclCommCount(const ncclComm_t comm, int* count) {
  return get("ncclCommCount", comm, count, "count", [](const Comm& it) { return it.size; });
}

ncclResult_t tuttiNcclCommUserRank(const ncclComm_t comm, int* rank) {
  return get("ncclCommUserRank", comm, rank, "rank", [](const Comm& it) { return it.rank; });
}

ncclResult_t tuttiNcclCommCuDevice(const ncclComm_t comm, int* device) {
  return get("ncclCommCuDevice", comm, device, "device",
             [](const Comm& it) { return it.config.device.value_or(-1); });
}
