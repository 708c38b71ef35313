// Of DeviceCalls: calls that are launched for all ranks of a process at once.
#include <chrono>
#include <utility>

#include "src/base/result.hpp"
#include "src/comm/device_calls.hpp"
#include "src/comm/pageable_buffers.hpp"
#include "src/exec/entries.hpp"

namespace tutti {

using exec::cuda::StreamHandle;

/// Whether this rank can take part in a launch for all. What is captured may be replayed as often
/// as anybody likes, so that ranks would count calls differently.
Result<bool> DeviceCalls::can_join(const Call& call, std::span<const StreamHandle> streams) const {
  TUTTI_ASSIGN(const cuda::CaptureState capture, host_staging_.capture(streams));
  if (capture.kind == cuda::CaptureKind::kActive) {
    joint_->dissolve_all();
    return false;
  }
  if (call.blocks || call.op == ReduceOp::kPreMulSum) return false;
  const auto misaligned = [&](const void* buffer) {
    return reinterpret_cast<std::uintptr_t>(buffer) % size_of(call.type) != 0;
  };
  if (misaligned(call.send) || misaligned(call.recv)) return false;
  TUTTI_ASSIGN(const PageableBuffers pageable, pageable_of({&call, 1}));
  return pageable.empty();
}

/// Makes the next call of all, or keeps out of it. After an error keep_out() has to follow.
Status DeviceCalls::come(const DeviceWork& work, const Call& call) {
  const std::uint64_t number = joint_calls_++;
  TUTTI_ASSIGN(const auto scope, driver_->make_current(device_));
  TUTTI_ASSIGN(const bool joins, can_join(call, work.streams));
  if (!joins) {
    joint_->dissolve(number);
    return ok_status();
  }
  for (JointEvent* const event : {&ready_, &done_}) {
    if (*event) continue;
    TUTTI_ASSIGN(cuda::Event made, cuda::Event::create(driver_, device_));
    *event = std::make_shared<cuda::Event>(std::move(made));
  }
  TUTTI_TRY(host_staging_.follow(work.streams, {}));
  TUTTI_TRY(ready_->record(work.streams.front()));
  joint_->come(
      number, rank_,
      {.input = static_cast<const std::byte*>(call.send),
       .output = static_cast<std::byte*>(call.recv),
       .stream = work.streams.front(),
       .ready = ready_,
       .call_hash = exec::hash_of(signature_of(call)),
       .in_place = is_in_place(call, rank_)},
      [&](const std::vector<exec::cuda::JointRank>& ranks) { return launch_for_all(call, ranks); });
  return ok_status();
}

/// Leaves the last call that this rank came to, to whoever still comes.
void DeviceCalls::keep_out() {
  joint_->dissolve(joint_calls_ - 1);
  (void)joint_->await(joint_calls_ - 1, Deadline::after(Nanos::zero()));
}

/// Of the call that this rank came to last: whether it was launched, and its streams go on behind.
Result<bool> DeviceCalls::was_launched(const DeviceWork& work) {
  TUTTI_ASSIGN(
      const JointEvent behind,
      joint_->await(joint_calls_ - 1, Deadline::after(kPeerPatience).unless(*work.aborted)));
  if (!behind) return false;
  TUTTI_ASSIGN(const auto scope, driver_->make_current(device_));
  TUTTI_TRY(behind->hold(work.streams.front()));
  TUTTI_TRY(host_staging_.mark(work.streams, {}));
  return true;
}

/// By the rank that came last, on its stream.
Result<DeviceCalls::JointEvent> DeviceCalls::launch_for_all(
    const Call& call, const std::vector<exec::cuda::JointRank>& ranks) {
  exec::cuda::RankBuffers buffers;
  for (const exec::cuda::JointRank& rank : ranks) {
    const exec::cuda::JointRank& own = ranks[static_cast<std::size_t>(rank_)];
    const bool alike = rooted(call.collective) || rank.in_place == own.in_place;
    if (rank.call_hash != own.call_hash || !alike) return JointEvent();
    buffers.inputs.push_back(rank.input);
    buffers.outputs.push_back(rank.output);
  }
  const Rank decides = rooted(call.collective) ? call.root : rank_;
  const bool in_place = ranks[static_cast<std::size_t>(decides)].in_place;
  TUTTI_ASSIGN(const Passes* const passes, passes_of(call, in_place));
  if (passes == nullptr) return JointEvent();
  const StreamHandle stream = ranks[static_cast<std::size_t>(rank_)].stream;
  for (const exec::cuda::JointRank& rank : ranks) TUTTI_TRY(rank.ready->hold(stream));
  const Reduction reduction{.type = call.type,
                            .op = reduces(call.collective) ? call.op : ReduceOp::kSum,
                            .divisor = size_};
  for (const auto& pass : *passes)
    TUTTI_TRY(kernels_.combine(device_, stream, reduction, pass, buffers));
  TUTTI_TRY(done_->record(stream));
  return done_;
}

/// Null where no program of this call is without waits.
Result<const DeviceCalls::Passes*> DeviceCalls::passes_of(const Call& call, bool in_place) {
  constexpr std::size_t kMostKept = 256;
  const CallSignature of = signature_of(call);
  const PassesKey key(of.collective, of.type, of.op, of.root, of.count, in_place);
  const auto known = passes_.find(key);
  if (known != passes_.end()) return known->second.empty() ? nullptr : &known->second;
  if (passes_.size() >= kMostKept) passes_.clear();
  TUTTI_ASSIGN(const auto program, communicator_.direct_program(call, in_place));
  Passes passes;
  if (program) {
    TUTTI_ASSIGN(passes, exec::cuda::local_passes(*program, {call.count, call.type, nullptr}));
  }
  const Passes& kept = passes_[key] = std::move(passes);
  return kept.empty() ? nullptr : &kept;
}

/// One call of each of these ranks.
Status DeviceCalls::enqueue_jointly(
    std::span<const std::pair<const DeviceWork*, const Call*>> calls) {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto& [work, call] = calls[i];
    const Status came = work->device->come(*work, *call);
    if (came) continue;
    for (std::size_t j = 0; j <= i; ++j) calls[j].first->device->keep_out();
    return came;
  }
  Status outcome = ok_status();
  std::vector<DeviceLaunch> dissolved;
  for (const auto& [work, call] : calls) {
    const Result<bool> launched = work->device->was_launched(*work);  // of all, after an error too
    if (!launched && outcome) outcome = launched.error();
    if (!outcome || *launched) continue;
    auto launch = work->device->begin(*work, {call, 1});
    if (launch)
      dissolved.push_back(*std::move(launch));
    else
      outcome = std::move(launch).error();
  }
  TUTTI_TRY(outcome);
  return enqueue_host_staging(dissolved);
}

}  // namespace tutti
