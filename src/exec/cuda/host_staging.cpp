#include "src/exec/cuda/host_staging.hpp"

#include <array>
#include <utility>

#include "src/base/result.hpp"

namespace tutti::exec::cuda {

using tutti::cuda::CaptureKind;
using tutti::cuda::CaptureState;
using tutti::cuda::Driver;
using tutti::cuda::Event;
using tutti::cuda::SharedDriver;

struct SlotSet {
  static constexpr std::size_t kSlots = 2;

  SlotSet(std::shared_ptr<SlotPool> slot_pool, Event event, bool of_graph)
      : pool(std::move(slot_pool)), last(std::move(event)), in_graph(of_graph) {}
  /// Perhaps on a thread of the driver, where no call of CUDA is allowed.
  ~SlotSet() {
    for (auto& slot : slots)
      if (slot) outgrown.push_back(std::move(slot));
    if (lost)
      for (auto& slot : outgrown) (void)slot.release();
    else
      pool->give_back(std::move(outgrown), std::move(last), in_graph);
  }
  SlotSet(const SlotSet&) = delete;
  SlotSet& operator=(const SlotSet&) = delete;

  std::shared_ptr<SlotPool> pool;
  Event last;           ///< behind the last launch
  const bool in_graph;  ///< a graph keeps the set: when that ends it, nothing runs any more
  bool used = false;    ///< there was a launch
  bool spoilt = false;  ///< one broke off: gates may open that no stream closes
  bool lost = false;    ///< and nobody can tell when the stream has left them
  std::array<std::unique_ptr<Slot>, kSlots> slots;
  std::vector<std::unique_ptr<Slot>> outgrown;  ///< commands that were enqueued name them
};

struct LaunchedSteps {
  /// What one host function is given.
  struct Call {
    LaunchedSteps* steps = nullptr;
    std::size_t index = 0;
    /// Of steps that run once: goes when they have.
    std::shared_ptr<LaunchedSteps> keep;
  };

  std::shared_ptr<SlotSet> slots;
  std::vector<HostStagingStep> steps;
  std::vector<Slot*> slot_of;
  std::vector<Call> calls;
  std::weak_ptr<LaunchedSteps> self;
};

namespace {

void run_step(void* data) {
  auto& call = *static_cast<LaunchedSteps::Call*>(data);
  const std::shared_ptr<LaunchedSteps> once = std::move(call.keep);
  LaunchedSteps& launched = *call.steps;
  const std::size_t index = call.index;
  launched.steps[index].work(
      std::make_shared<SlotUse>(launched.self.lock(), *launched.slot_of[index]));
}

/// Of all streams alike.
Result<CaptureState> capture_of(const Driver& driver, std::span<const StreamHandle> streams) {
  TUTTI_ASSIGN(const CaptureState first, driver.capture_status(streams.front()));
  if (first.kind == CaptureKind::kInvalidated)
    return make_error(Code::kInvalidUsage,
                      "the capture of stream {} has failed: end it before the next call",
                      static_cast<const void*>(streams.front()));
  for (const StreamHandle stream : streams.subspan(1)) {
    TUTTI_ASSIGN(const CaptureState other, driver.capture_status(stream));
    if (other.kind == first.kind && other.id == first.id) continue;
    const bool is_first = first.kind == CaptureKind::kActive;
    return make_error(Code::kInvalidUsage,
                      "of the streams of one group {} is being captured and {} is not, or not into "
                      "the same graph: capture all of them, or none",
                      static_cast<const void*>(is_first ? streams.front() : stream),
                      static_cast<const void*>(is_first ? stream : streams.front()));
  }
  return first;
}

Status wait_for(const SharedDriver& driver, int device, StreamHandle stream, StreamHandle other) {
  TUTTI_ASSIGN(const Event behind, Event::create(driver, device));
  TUTTI_TRY(behind.record(other));
  return behind.hold(stream);
}

void drop_steps(void* data) { delete static_cast<std::shared_ptr<LaunchedSteps>*>(data); }

}  // namespace

Result<CaptureState> HostStaging::capture(std::span<const StreamHandle> streams) const {
  return capture_of(*driver_, streams);
}

Result<std::shared_ptr<SlotSet>> HostStaging::slots_for(const CaptureState& capture) {
  const bool captured = capture.kind == CaptureKind::kActive;
  auto& current = captured ? capture_.slots : slots_;
  const bool other_capture = captured && capture_.id != capture.id;
  if (current && !current->spoilt && !other_capture) return current;
  TUTTI_ASSIGN(Event last, Event::create(driver_, device_));
  current = std::make_shared<SlotSet>(pool_, std::move(last), captured);
  if (captured) capture_.id = capture.id;
  return current;
}

Status HostStaging::follow(std::span<const StreamHandle> streams, const SlotSet& slots) const {
  for (const StreamHandle other : streams.subspan(1))
    TUTTI_TRY(wait_for(driver_, device_, streams.front(), other));
  return slots.used ? slots.last.hold(streams.front()) : ok_status();
}

Status HostStaging::follow(std::span<const StreamHandle> streams, const CaptureState& capture) {
  TUTTI_ASSIGN(const std::shared_ptr<SlotSet> slots, slots_for(capture));
  return follow(streams, *slots);
}

Result<bool> HostStaging::idle() const {
  if (!slots_ || !slots_->used) return true;
  return slots_->last.done();
}

Status HostStaging::mark(std::span<const StreamHandle> streams, const CaptureState& capture) {
  TUTTI_ASSIGN(const std::shared_ptr<SlotSet> slots, slots_for(capture));
  TUTTI_TRY(slots->last.record(streams.front()));
  slots->used = true;
  for (const StreamHandle other : streams.subspan(1)) TUTTI_TRY(slots->last.hold(other));
  return ok_status();
}

Result<HostStagingLaunch> HostStaging::begin(std::span<const StreamHandle> streams,
                                             std::vector<HostStagingStep> steps) {
  TUTTI_ASSIGN(const CaptureState capture, capture_of(*driver_, streams));
  const bool captured = capture.kind == CaptureKind::kActive;
  HostStagingLaunch launch;
  launch.driver_ = driver_;
  launch.device_ = device_;
  launch.stream_ = streams.front();
  launch.others_.assign(streams.begin() + 1, streams.end());
  TUTTI_ASSIGN(launch.slots_, slots_for(capture));
  launch.steps_ = std::make_shared<LaunchedSteps>();
  LaunchedSteps& launched = *launch.steps_;
  launched.self = launch.steps_;
  launched.slots = launch.slots_;
  launched.slot_of.resize(steps.size());
  launched.steps = std::move(steps);
  launched.calls.resize(launched.steps.size());
  for (std::size_t i = 0; i < launched.calls.size(); ++i) launched.calls[i] = {&launched, i, {}};
  launch.runs_once_ = !captured;
  if (captured)
    TUTTI_TRY(driver_->give_to_graph(capture.graph, drop_steps,
                                     new std::shared_ptr<LaunchedSteps>(launch.steps_)));
  TUTTI_TRY(follow(streams, *launch.slots_));
  return launch;
}

Status HostStagingLaunch::open(std::size_t index) {
  const HostStagingStep& step = steps_->steps[index];
  std::unique_ptr<Slot>& slot = slots_->slots[index % SlotSet::kSlots];
  if (!slot || slot->memory().size() < step.bytes) {
    TUTTI_ASSIGN(std::unique_ptr<Slot> larger, slots_->pool->take(device_, step.bytes));
    if (slot) slots_->outgrown.push_back(std::move(slot));
    slot = std::move(larger);
  }
  steps_->slot_of[index] = slot.get();
  for (const CopyRange& in : step.in)
    TUTTI_TRY(
        driver_->copy_async(slot->memory().data() + in.slot_offset, in.buffer, in.bytes, stream_));
  for (const DeviceCopy& move : step.moves)
    TUTTI_TRY(driver_->copy_async(move.to, move.from, move.bytes, stream_));
  LaunchedSteps::Call& call = steps_->calls[index];
  if (runs_once_) call.keep = steps_;
  Status enqueued = driver_->host_function(stream_, run_step, &call);
  if (!enqueued) call.keep = nullptr;
  return enqueued;
}

Status HostStagingLaunch::close(std::size_t index) {
  const Slot& slot = *steps_->slot_of[index];
  TUTTI_TRY(driver_->wait_value(stream_, slot.gate(), 1));
  TUTTI_TRY(driver_->write_value(stream_, slot.gate(), 0));
  for (const CopyRange& out : steps_->steps[index].out)
    TUTTI_TRY(driver_->copy_async(out.buffer, slot.memory().data() + out.slot_offset, out.bytes,
                                  stream_));
  return ok_status();
}

Status HostStagingLaunch::finish() {
  TUTTI_TRY(slots_->last.record(stream_));
  slots_->used = true;
  for (const StreamHandle other : others_) TUTTI_TRY(slots_->last.hold(other));
  return ok_status();
}

HostStagingLaunch::~HostStagingLaunch() {
  if (!slots_ || opened_ == 0 || finished_) return;
  slots_->spoilt = true;
  const auto scope = driver_->make_current(device_);
  if (!scope || !slots_->last.record(stream_)) slots_->lost = true;
}

Result<bool> HostStagingLaunch::advance() {
  const std::size_t all = steps_->steps.size();
  if (opened_ > 0) {
    TUTTI_TRY(close(closed_));
    ++closed_;
  }
  while (opened_ < all && opened_ < closed_ + SlotSet::kSlots) {
    ++opened_;
    TUTTI_TRY(open(opened_ - 1));
  }
  if (closed_ < all) return true;
  TUTTI_TRY(finish());
  finished_ = true;
  return false;
}

}  // namespace tutti::exec::cuda
