#include "src/comm/call_queue.hpp"

#include <map>
#include <string>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/comm/compressor.hpp"
#include "src/comm/valid_call.hpp"

namespace tutti {
namespace {

exec::PointToPoint transfer_of(const Call& call) {
  const bool sends = call.collective == Collective::kSend;
  return {sends,
          call.root,
          sends ? static_cast<std::byte*>(const_cast<void*>(call.send))
                : static_cast<std::byte*>(call.recv),
          block_bytes(call),
          signature_of(call),
          call.site.caller == nullptr ? std::string() : describe(call),
          call.for_devices,
          call.device_memory};
}

/// Calls that are made together, with one compression that keeps errors, are alike.
Status check_shared_errors(std::span<const Call> calls) {
  std::map<const Compressor*, CallSignature> first;
  for (const Call& call : calls) {
    if (call.compressor == nullptr || !call.compressor->compression().feedback) continue;
    const CallSignature signature = signature_of(call);
    const auto [known, fresh] = first.try_emplace(call.compressor, signature);
    if (!fresh && known->second != signature)
      return make_error(
          Code::kInvalidUsage,
          "one compression keeps the errors of {} and, in the same group, of {}: each "
          "needs one of its own",
          describe(known->second), describe(signature));
  }
  return ok_status();
}

}  // namespace

Status CallQueue::usable() const {
  TUTTI_TRY(end_.health());
  if (finalized_)
    return make_error(Code::kInvalidUsage, "communicator {} was finalized: it takes no more calls",
                      facts_.name);
  return ok_status();
}

/// What this rank finds wrong alone, while nobody waits.
Status CallQueue::check_series(const Call& call) const {
  return call.compressor->check({facts_.id, facts_.rank, facts_.size, signature_of(call)});
}

Status CallQueue::start(std::span<const Call> calls) {
  TUTTI_TRY(usable());
  active_.caller_waits(false);
  std::vector<exec::PointToPoint> transfers;
  bool is_compressed = false;
  for (const Call& call : calls) {
    TUTTI_TRY(check_call(call, facts_.rank, facts_.size));
    if (call.compressor == nullptr) continue;
    TUTTI_TRY(check_series(call));
    is_compressed = true;
  }
  if (is_compressed) TUTTI_TRY(check_shared_errors(calls));
  TUTTI_TRY(check_group(calls, facts_.rank));
  std::unique_ptr<CodedMessages> coded;
  for (const Call& call : calls) {
    if (!is_point_to_point(call)) {
      queue_.push_back({call, {}});
      continue;
    }
    transfers.push_back(transfer_of(call));
    if (!wire_of(call)) continue;
    if (!coded) coded = std::make_unique<CodedMessages>();
    coded->add(call, transfers.back());
  }
  if (!transfers.empty()) queue_.push_back({{}, std::move(transfers), std::move(coded)});
  return ok_status();
}

Status CallQueue::begin(const Queued& queued) {
  watch_.restart();
  return queued.transfers.empty() ? active_.begin(queued.call)
                                  : active_.begin(queued.transfers, queued.coded.get());
}

Result<CallQueue::Progress> CallQueue::poll() {
  if (idle()) TUTTI_TRY(end_.health());
  for (;;) {
    if (active_.none()) {
      if (queue_.empty()) return Progress::kIdle;
      if (Status begun = begin(queue_.front()); !begun) return fail(std::move(begun).error());
    }
    auto state = active_.poll();
    if (!state && watch_.reason_may_come(state.error())) return Progress::kPending;
    if (!state) return fail(std::move(state).error());
    if (*state == exec::Poll::kPending) {
      if (Status in_time = watch_.check(active_); !in_time) return fail(std::move(in_time).error());
      return Progress::kPending;
    }
    watch_.rest();
    auto complete = active_.complete();
    if (!complete) return fail(std::move(complete).error());
    if (*complete) queue_.pop_front();  // else the call may begin now
  }
}

Status CallQueue::run(const Call& call) {
  if (!queue_.empty() || is_point_to_point(call)) {
    TUTTI_TRY(start({&call, 1}));
    return run_queued();
  }
  watch_.restart();
  if (active_.repeats(call) && !end_.has_come() && !finalized_) [[likely]] {
    active_.begin_again();  // valid, planned, and bound already
  } else {
    TUTTI_TRY(usable());
    TUTTI_TRY(check_call(call, facts_.rank, facts_.size));
    if (call.compressor != nullptr) TUTTI_TRY(check_series(call));
    active_.caller_waits(true);
    if (Status begun = active_.begin(call); !begun) return fail(std::move(begun).error());
    if (!active_.is_plain_collective()) {  // on trial, or waits for a verdict
      queue_.push_back({call, {}});
      return run_queued();
    }
  }
  return run_alone();
}

/// Polls a plain collective until it is complete.
Status CallQueue::run_alone() {
  for (std::uint32_t polls = 0;; ++polls) {
    auto state = active_.poll_collective();
    const bool waits = !state && watch_.reason_may_come(state.error());
    if (!state && !waits) return fail(std::move(state).error());
    if (state && *state == exec::Poll::kDone) break;
    if (Status in_time = watch_.check(active_); !in_time) return fail(std::move(in_time).error());
    team_.waits().idle(polls, CallerActivity::kWaits);
  }
  watch_.rest();
  active_.complete_collective();
  return ok_status();
}

Status CallQueue::run_queued() {
  for (std::uint32_t polls = 0;; ++polls) {
    TUTTI_ASSIGN(const Progress progress, poll());
    if (progress == Progress::kIdle) return ok_status();
    team_.waits().idle(polls, CallerActivity::kWaits);
  }
}

Status CallQueue::finalize(Deadline deadline) {
  if (finalized_)
    return make_error(Code::kInvalidArgument, "communicator {} was finalized before", facts_.name);
  TUTTI_TRY(end_.health());
  for (std::uint32_t polls = 0;; ++polls) {
    TUTTI_ASSIGN(const Progress progress, poll());
    if (progress == Progress::kIdle) break;
    if (deadline.passed())
      return make_error(Code::kTimeout, "communicator {} still has operations under way",
                        facts_.name);
    team_.waits().idle(polls, CallerActivity::kWaits);
  }
  finalized_ = true;
  return ok_status();
}

/// Ends the communicator. `error` gets its context, stays, and reaches the peers. A peer's end may
/// be seen after the reason for it came: then the reason is the error.
Error CallQueue::fail(Error error) {
  const Status health = end_.health();
  const bool known = !health;
  const bool follows = error.code == Code::kAborted || error.code == Code::kPeerFailed;
  if (follows && known) error = health.error();
  if (error.code == Code::kAborted && !known) error.code = Code::kPeerFailed;  // a peer's doing
  watch_.rest();
  error = active_.fail(std::move(error), facts_);
  queue_.clear();
  if (!known) end_.come(error);
  log_warn(facts_.who(), "{}: {}", name_of(error.code), error.what);
  return error;
}

}  // namespace tutti
