#include "src/comm/device_calls.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/memory_map.hpp"
#include "src/base/result.hpp"
#include "src/comm/pageable_buffers.hpp"
#include "src/exec/entries.hpp"

namespace tutti {

using exec::cuda::CopyRange;
using exec::cuda::HostStagingStep;
using exec::cuda::StreamHandle;

namespace {

/// On the default stream, where nothing behind a gate runs before the gate opens.
constexpr auto kLongPeerPatience = std::chrono::seconds(30);

bool is_default(StreamHandle stream) {
  return reinterpret_cast<std::uintptr_t>(stream) <= cuda::abi::kLegacyStream;
}

/// Moves the ranges of ordinary host memory out of `ranges`.
std::vector<CopyRange> take_pageable(const PageableBuffers& pageable,
                                     std::vector<CopyRange>& ranges) {
  std::vector<CopyRange> taken;
  if (pageable.empty()) return taken;
  std::ranges::copy_if(ranges, std::back_inserter(taken),
                       [&](const CopyRange& range) { return pageable.holds(range); });
  std::erase_if(ranges, [&](const CopyRange& range) { return pageable.holds(range); });
  return taken;
}

Call call_in(const Part& part, std::byte* memory) {
  Call call = part.call;
  if (part.sends && call.send == nullptr) call.send = memory + part.send_offset;
  if (part.receives && call.recv == nullptr) call.recv = memory + part.recv_offset;
  if (call.device_scalar != nullptr)
    std::memcpy(call.scalar, memory + part.scalar_offset, size_of(call.type));
  call.device_scalar = nullptr;
  return call;
}

}  // namespace

Status HostStep::run(GroupMember& member) const {
  std::byte* const memory = use_->memory();
  for (const CopyRange& in : plan_->in) std::memcpy(memory + in.slot_offset, in.buffer, in.bytes);
  std::vector<Call> calls;
  calls.reserve(plan_->parts.size());
  for (const Part& part : plan_->parts) calls.push_back(call_in(part, memory));
  TUTTI_TRY(member.start(calls));
  TUTTI_TRY(run_group(std::array{&member}, [] { return CallerActivity::kComputes; }));
  for (const CopyRange& out : plan_->out)
    std::memcpy(out.buffer, memory + out.slot_offset, out.bytes);
  return ok_status();
}

int device_count(const Runtime& runtime) { return runtime.cuda ? runtime.cuda->device_count() : 0; }

Result<std::optional<int>> current_device(const Runtime& runtime) {
  if (!runtime.cuda) return std::optional<int>();
  TUTTI_ASSIGN(const int device, runtime.cuda->current_device());
  return std::optional(device);
}

Result<std::string> device_label(const Runtime& runtime, int device) {
  TUTTI_ASSIGN(const cuda::DeviceFacts facts, runtime.cuda->device(device));
  if (!facts.stream_values || !facts.host_register)
    return make_error(Code::kUnsupported,
                      "streams of GPU {} ({}) cannot wait for words of host memory: install a "
                      "driver of release 515 (CUDA 11.7) or later, or set TUTTI_DEVICE=host",
                      device, facts.name);
  return fmt::format("GPU {} ({}, {})", device, facts.name, facts.bus_id);
}

DeviceCalls::DeviceCalls(const Runtime& runtime, const GroupContext& communicator, int device)
    : driver_(runtime.cuda),
      device_(device),
      rank_(communicator.facts().rank),
      size_(communicator.facts().size),
      slot_bytes_(static_cast<std::size_t>(runtime.settings.integer("CUDA_SLOT_BYTES"))),
      neighbours_(communicator.facts().ranks_of_this_process),
      enqueue_barrier_(runtime.enqueue_barriers->of(communicator.facts().id)),
      host_staging_(runtime.cuda, device, runtime.slots),
      communicator_(communicator),
      kernels_(*runtime.kernels) {
  std::erase(neighbours_, rank_);
}

Result<std::unique_ptr<DeviceCalls>> DeviceCalls::create(const Runtime& runtime,
                                                         GroupContext& communicator, int device,
                                                         Deadline deadline) {
  std::unique_ptr<DeviceCalls> made(new DeviceCalls(runtime, communicator, device));
  TUTTI_ASSIGN(made->peers_, PeerCalls::create(runtime, communicator, device, deadline));
  TUTTI_TRY(made->find_nics(runtime, communicator, deadline));
  const bool direct = runtime.settings.flag("DIRECT");
  if (!direct || !communicator.facts().shares_one_gpu || !runtime.kernels->available()) return made;
  TUTTI_ASSIGN(const auto scope, runtime.cuda->make_current(device));
  made->joint_ = runtime.joint_calls->of(communicator.facts().id, made->size_);
  if (const Status loaded = runtime.kernels->prepare(device); !loaded) {
    log_warn(fmt::format("[rank {}/{}]", made->rank_, made->size_),
             "calls pass through host memory, since GPU {} cannot run this library's kernels: {}",
             device, loaded.error().what);
    made->joint_->dissolve_all();
  }
  return made;
}

/// Whether `buffer` is memory that only the host reaches; an error where this GPU does not reach
/// it either.
Result<bool> DeviceCalls::is_pageable(const void* buffer, std::string_view name) const {
  TUTTI_ASSIGN(const cuda::PointerFacts facts, driver_->pointer(buffer));
  if (facts.kind == cuda::MemoryKind::kPageable) return true;
  if (facts.kind != cuda::MemoryKind::kDevice || facts.device == device_) return false;
  return make_error(Code::kInvalidArgument,
                    "{} {} is memory of GPU {}, but rank {} of this communicator uses GPU {}: call "
                    "cudaSetDevice before you allocate, or before you make the communicator",
                    name, buffer, facts.device, rank_, device_);
}

namespace {

/// What CUDA does not know need not be the host's: the host must not touch it then.
Status check_is_hosts(const MemoryMap& memory, Access access, const void* buffer,
                      std::string_view name, const std::vector<Stretch>& stretches) {
  for (const auto& [begin, bytes] : stretches)
    if (memory.first_without(access, static_cast<const std::byte*>(buffer) + begin, bytes))
      return make_error(Code::kInvalidArgument,
                        "{} {} is memory of no GPU, and the host may not {} all of it: pass memory "
                        "that is as large as the call needs and was not freed",
                        name, buffer, access == Access::kRead ? "read" : "write");
  return ok_status();
}

}  // namespace

/// The parts of buffers that the host copies.
Result<PageableBuffers> DeviceCalls::pageable_of(std::span<const Call> calls) const {
  PageableBuffers pageable;
  std::optional<MemoryMap> memory;
  const auto look = [&](Access access, const void* buffer, std::string_view name,
                        const std::vector<Stretch>& stretches) -> Status {
    if (stretches.empty()) return ok_status();
    TUTTI_ASSIGN(const bool found, is_pageable(buffer, name));
    if (!found) return ok_status();
    if (!memory) {
      TUTTI_ASSIGN(memory, MemoryMap::of_this_process());
    }
    TUTTI_TRY(check_is_hosts(*memory, access, buffer, name, stretches));
    pageable.add(buffer, stretches);
    return ok_status();
  };
  for (const Call& call : calls) {
    TUTTI_TRY(look(Access::kRead, call.send, "sendbuff", input_stretches(call, rank_, size_)));
    TUTTI_TRY(look(Access::kWrite, call.recv, "recvbuff", output_stretches(call, rank_, size_)));
    if (call.device_scalar != nullptr) {
      const std::vector<Stretch> scalar = {{0, size_of(call.type)}};
      TUTTI_TRY(look(Access::kRead, call.device_scalar, "the operator's scalar", scalar));
    }
  }
  return pageable;
}

Result<bool> DeviceCalls::check(std::span<const Call> calls,
                                std::span<const StreamHandle> streams) {
  prepared_.clear();
  TUTTI_ASSIGN(const cuda::ContextScope scope, driver_->make_current(device_));
  for (const StreamHandle stream : streams) {
    TUTTI_ASSIGN(const int device, driver_->device_of(stream));
    if (device != device_)
      return make_error(Code::kInvalidArgument,
                        "stream {} is one of GPU {}, but rank {} of this communicator uses GPU {}",
                        static_cast<const void*>(stream), device, rank_, device_);
  }
  TUTTI_ASSIGN(const cuda::CaptureState capture, host_staging_.capture(streams));
  const bool captured = capture.kind == cuda::CaptureKind::kActive;
  TUTTI_ASSIGN(const PageableBuffers pageable, pageable_of(calls));
  if (captured && !pageable.empty())
    return make_error(Code::kInvalidUsage,
                      "a call on ordinary host memory cannot be captured into a graph: allocate "
                      "its buffers with cudaMalloc, cudaMallocHost or ncclMemAlloc");
  for (const Call& call : calls) {
    TUTTI_ASSIGN(const bool runs, runs_on_peers(call));
    if (!runs) continue;
    TUTTI_ASSIGN(PeerCalls::Prepared prepared, peers_->prepare(call, captured));
    prepared_.push_back(std::move(prepared));
  }
  return captured;
}

Result<DeviceLaunch> DeviceCalls::begin(const DeviceWork& work, std::span<const Call> calls) {
  TUTTI_ASSIGN(const cuda::ContextScope scope, driver_->make_current(device_));
  TUTTI_ASSIGN(const PageableBuffers pageable, pageable_of(calls));
  DeviceLaunch launch;
  launch.calls_ = this;
  launch.stream_ = work.streams.front();
  launch.aborted_ = work.aborted;
  launch.synchronous_ = !pageable.empty();
  std::vector<Call> marked(calls.begin(), calls.end());
  for (Call& call : marked) {
    TUTTI_ASSIGN(call.for_devices, goes_by_nic(call));
  }
  const auto stays = [&](const Call& call) {
    if (!pageable.empty() || call.compressor != nullptr || !is_registered(call)) return false;
    const BufferBytes bytes = buffer_bytes(call, rank_, size_);
    passed_.in_place += call.collective == Collective::kSend ? bytes.send : bytes.recv;
    return true;
  };
  const auto shared_sink = std::make_shared<const HostStepSink>(work.sink);
  std::vector<HostStagingStep> steps;
  for (StagingStep& step : cut(marked, rank_, size_, slot_bytes_, stays)) {
    launch.marks_.push_back(marks_of(step));
    for (const CopyRange& in : step.in) passed_.in += in.bytes;
    for (const CopyRange& out : step.out) passed_.out += out.bytes;
    auto plan = std::make_shared<HostStep::Plan>();
    plan->parts = std::move(step.parts);
    plan->in = take_pageable(pageable, step.in);
    plan->out = take_pageable(pageable, step.out);
    steps.push_back({std::move(step.in), std::move(step.out), std::move(step.moves), step.bytes,
                     [shared_sink, plan](std::shared_ptr<exec::cuda::SlotUse> use) {
                       (*shared_sink)(HostStep(plan, std::move(use)));
                     }});
  }
  TUTTI_ASSIGN(launch.host_staging_, host_staging_.begin(work.streams, std::move(steps)));
  return launch;
}

/// Whether its messages go by lanes for devices: the same on all ranks that take part.
Result<bool> DeviceCalls::goes_by_nic(const Call& call) const {
  if (nics_.empty()) return false;
  if (is_point_to_point(call)) return static_cast<bool>(nics_[static_cast<std::size_t>(call.root)]);
  const bool moves_in_place =
      call.collective == Collective::kAllGather || call.collective == Collective::kBroadcast;
  if (!moves_in_place || call.compressor != nullptr || !nics_join_all_) return false;
  return communicator_.only_messages(call);
}

/// The buffer that a call sends from, or receives in.
bool DeviceCalls::is_registered(const Call& call) const {
  const bool sends = call.collective == Collective::kSend;
  const auto stretches =
      sends ? input_stretches(call, rank_, size_) : output_stretches(call, rank_, size_);
  std::size_t bytes = 0;
  for (const Stretch& stretch : stretches) bytes = std::max(bytes, stretch.begin + stretch.bytes);
  return bytes > 0 && nic_memory_->holds(sends ? call.send : call.recv, bytes);
}

/// Collective over the ranks: which of them NICs reach from GPU to GPU.
Status DeviceCalls::find_nics(const Runtime& runtime, GroupContext& communicator,
                              Deadline deadline) {
  if (communicator.facts().hosts == 1) return ok_status();
  nic_memory_ = runtime.nic_memory.get();
  const bool here = nic_memory_ != nullptr && nic_memory_->problem_with(device_).empty();
  bool to_all = here;
  for (Rank peer = 0; peer < size_; ++peer)
    to_all &= peer == rank_ || communicator.carries_device_memory_to(peer);
  TUTTI_ASSIGN(const std::vector<Blob> told,
               communicator.all_gather({std::byte{here}, std::byte{to_all}}, deadline));
  const Blob yes = {std::byte{1}, std::byte{1}};
  nics_join_all_ = std::ranges::all_of(told, [&](const Blob& word) { return word == yes; });
  if (!here) return ok_status();
  for (Rank peer = 0; peer < size_; ++peer) {
    const Blob& word = told[static_cast<std::size_t>(peer)];
    const bool there = word.size() == yes.size() && word.front() == std::byte{1};
    nics_.push_back(there && communicator.carries_device_memory_to(peer));
  }
  return ok_status();
}

DeviceLaunch::Marks DeviceCalls::marks_of(const StagingStep& step) {
  DeviceLaunch::Marks marks;
  if (neighbours_.empty()) return marks;
  const auto is_neighbour = [this](Rank peer) {
    return std::ranges::find(neighbours_, peer) != neighbours_.end();
  };
  for (const Part& part : step.parts) {
    exec::cuda::Progression own{.rank = rank_};
    if (is_point_to_point(part.call)) {
      if (!is_neighbour(part.call.root)) continue;
      own.peer = part.call.root;
      own.sends = part.call.collective == Collective::kSend;
    }
    const std::uint64_t count = ++counts_[own];
    marks.own.push_back({own, count});
    if (own.peer != kNoRank) {
      marks.others.push_back({{own.peer, rank_, !own.sends}, count});
      continue;
    }
    for (const Rank neighbour : neighbours_) marks.others.push_back({{.rank = neighbour}, count});
  }
  return marks;
}

/// Before a step is closed: see EnqueueBarrier.
void DeviceCalls::await_peers(DeviceLaunch& launch) const {
  if (neighbours_.empty() || !launch.waits_for_peers_ || launch.host_staging_.opened() == 0) return;
  const auto& marks = launch.marks_[launch.host_staging_.closed()];
  const std::chrono::seconds patience =
      is_default(launch.stream_) ? kLongPeerPatience : kPeerPatience;
  launch.waits_for_peers_ =
      enqueue_barrier_->await(marks.others, Deadline::after(patience).unless(*launch.aborted_));
  if (!launch.waits_for_peers_)
    log_warn(fmt::format("[rank {}/{}]", rank_, size_),
             "other ranks of this process did not make the same call within {} s; its commands are "
             "enqueued without theirs, which hangs where their streams share a hardware queue",
             patience.count());
}

Result<bool> DeviceCalls::advance(DeviceLaunch& launch) const {
  await_peers(launch);
  TUTTI_ASSIGN(const cuda::ContextScope scope, driver_->make_current(device_));
  const std::size_t before = launch.host_staging_.opened();
  TUTTI_ASSIGN(const bool more, launch.host_staging_.advance());
  for (std::size_t step = before; step < launch.host_staging_.opened(); ++step)
    if (!neighbours_.empty()) enqueue_barrier_->arrive(launch.marks_[step].own);
  return more;
}

Status DeviceCalls::enqueue_host_staging(std::span<DeviceLaunch> launches) {
  std::vector<DeviceLaunch*> unfinished;
  for (DeviceLaunch& launch : launches) unfinished.push_back(&launch);
  while (!unfinished.empty()) {
    std::vector<DeviceLaunch*> next;
    for (DeviceLaunch* const launch : unfinished) {
      TUTTI_ASSIGN(const bool more, launch->calls_->advance(*launch));
      if (more) next.push_back(launch);
    }
    unfinished = std::move(next);
  }
  for (const DeviceLaunch& launch : launches)
    if (launch.synchronous_) TUTTI_TRY(launch.calls_->synchronize(launch));
  return ok_status();
}

Status DeviceCalls::synchronize(const DeviceLaunch& launch) const {
  TUTTI_ASSIGN(const cuda::ContextScope scope, driver_->make_current(device_));
  return driver_->synchronize(launch.stream_);
}

Status DeviceCalls::enqueue(std::span<const DeviceWork> works) {
  std::vector<std::vector<Call>> rest(works.size());
  std::vector<std::vector<const Call*>> joint(works.size());
  std::size_t rounds = 0;
  for (std::size_t w = 0; w < works.size(); ++w) {
    for (const Call& call : works[w].calls) {
      TUTTI_ASSIGN(const bool on_peers, works[w].device->runs_on_peers(call));
      if (works[w].device->joint_ && !is_point_to_point(call))
        joint[w].push_back(&call);
      else if (!on_peers)
        rest[w].push_back(call);
    }
    rounds = std::max(rounds, joint[w].size());
  }
  for (std::size_t round = 0; round < rounds; ++round) {
    std::vector<std::pair<const DeviceWork*, const Call*>> calls;
    for (std::size_t w = 0; w < works.size(); ++w)
      if (round < joint[w].size()) calls.emplace_back(&works[w], joint[w][round]);
    TUTTI_TRY(enqueue_jointly(calls));
  }
  TUTTI_TRY(enqueue_on_peers(works));
  std::vector<DeviceLaunch> launches;
  for (std::size_t w = 0; w < works.size(); ++w) {
    if (rest[w].empty()) continue;
    TUTTI_ASSIGN(DeviceLaunch launch, works[w].device->begin(works[w], rest[w]));
    launches.push_back(std::move(launch));
  }
  TUTTI_TRY(enqueue_host_staging(launches));
  for (const DeviceWork& work : works) TUTTI_TRY(work.device->finish_on_peers());
  return ok_status();
}

}  // namespace tutti
