// Host staging: how calls on GPU buffers run where GPUs do not reach each other's memory. The host
// does the work, in the order of a CUDA stream.
//
// A launch consists of steps. For each step the stream
//
//   copies in                from the caller's buffers to a slot of host memory;
//   calls a host function    which hands the slot to the host's worker;
//   waits at the slot's gate which opens when the work is over;
//   copies out               from the slot to the caller's buffers.
//
// There are two slots: the host works on one step while the stream copies for the next. The caller
// only enqueues all this. No kernel of one rank waits for a kernel of another, so ranks may share a
// GPU as threads, as processes, or both. In a stream that is being captured the same commands
// become nodes of its graph. They wait for memory and reset it, so the graph can be replayed.
//
// A gate at the head of a hardware queue holds up all that follows in that queue, also commands of
// other streams of the process. So whatever opens a gate must not be queued behind it: ranks of one
// process enqueue their copies in before any of them enqueues a gate (EnqueueBarrier).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "src/cuda/driver.hpp"
#include "src/exec/cuda/copy_range.hpp"
#include "src/exec/cuda/slot_pool.hpp"
#include "tutti/error.hpp"

namespace tutti::exec::cuda {

/// A cudaStream_t.
using StreamHandle = tutti::cuda::abi::Stream;

/// A slot while the host works on it. The gate opens when this is destroyed. Resource.
class SlotUse {
 public:
  /// `owner` keeps the slot.
  SlotUse(std::shared_ptr<const void> owner, Slot& slot) : owner_(std::move(owner)), slot_(slot) {}
  ~SlotUse() { slot_.open_gate(); }
  SlotUse(const SlotUse&) = delete;
  SlotUse& operator=(const SlotUse&) = delete;
  [[nodiscard]] std::byte* memory() const { return slot_.memory().data(); }

 private:
  const std::shared_ptr<const void> owner_;
  Slot& slot_;
};

struct HostStagingStep {
  std::vector<CopyRange> in, out;
  std::vector<DeviceCopy> moves;  ///< before `work`, as the copies in
  std::size_t bytes = 0;          ///< of the slot
  /// Called on a thread of the driver after the copies in, each time that the step runs. It must
  /// neither wait nor call CUDA, but pass `use` on. What it captures lives for as long as the step
  /// may run.
  std::function<void(std::shared_ptr<SlotUse> use)> work;
};

/// The slots that the launches use, one launch after another.
struct SlotSet;
/// What the host functions of a launch read when they run.
struct LaunchedSteps;

/// One launch while it is being enqueued.
class HostStagingLaunch {
 public:
  HostStagingLaunch() = default;
  HostStagingLaunch(HostStagingLaunch&&) = default;
  HostStagingLaunch& operator=(HostStagingLaunch&&) = default;
  HostStagingLaunch(const HostStagingLaunch&) = delete;
  HostStagingLaunch& operator=(const HostStagingLaunch&) = delete;
  ~HostStagingLaunch();

  /// Enqueues the next commands. The first time these are the copies in of as many steps as there
  /// are slots; after that the gate and the copies out of one step, and the copies in of another.
  /// False once all is enqueued. After an error nothing more is enqueued, and what was enqueued
  /// runs to its end.
  Result<bool> advance();
  /// Steps whose copies in are enqueued.
  [[nodiscard]] std::size_t opened() const { return opened_; }
  /// Steps whose commands are all enqueued.
  [[nodiscard]] std::size_t closed() const { return closed_; }

 private:
  friend class HostStaging;
  Status open(std::size_t index);
  Status close(std::size_t index);
  Status finish();

  tutti::cuda::SharedDriver driver_;
  std::shared_ptr<SlotSet> slots_;
  std::shared_ptr<LaunchedSteps> steps_;
  int device_ = 0;
  StreamHandle stream_ = nullptr;
  std::vector<StreamHandle> others_;
  bool runs_once_ = true;  ///< not captured
  bool finished_ = false;
  std::size_t opened_ = 0, closed_ = 0;
};

/// Host staging of one rank of a communicator. Used by one thread at a time, with the context of
/// its device current. Resource.
class HostStaging {
 public:
  HostStaging(tutti::cuda::SharedDriver driver, int device, std::shared_ptr<SlotPool> pool)
      : driver_(std::move(driver)), device_(device), pool_(std::move(pool)) {}

  /// Whether these streams are being captured, and into which graph. kInvalidUsage: only some of
  /// them are.
  Result<tutti::cuda::CaptureState> capture(std::span<const StreamHandle> streams) const;

  /// Makes the first of `streams` wait for what the others did before, and for the last launch, as
  /// begin() does. For other commands that have to keep the same order.
  Status follow(std::span<const StreamHandle> streams, const tutti::cuda::CaptureState& capture);
  /// Later launches, and the other streams, wait for what the first of `streams` has been given.
  Status mark(std::span<const StreamHandle> streams, const tutti::cuda::CaptureState& capture);
  /// Whether all launches are over. Launches in graphs are not counted.
  [[nodiscard]] Result<bool> idle() const;

  /// The first of `streams` runs the steps after all that the streams did before; the others wait
  /// for it. Launches run in the order in which they begin, whatever their streams.
  Result<HostStagingLaunch> begin(std::span<const StreamHandle> streams,
                                  std::vector<HostStagingStep> steps);

 private:
  struct Capture {
    std::uint64_t id = 0;
    std::shared_ptr<SlotSet> slots;
  };
  Status follow(std::span<const StreamHandle> streams, const SlotSet& slots) const;
  Result<std::shared_ptr<SlotSet>> slots_for(const tutti::cuda::CaptureState& capture);

  const tutti::cuda::SharedDriver driver_;
  const int device_;
  const std::shared_ptr<SlotPool> pool_;
  std::shared_ptr<SlotSet> slots_;  ///< of launches that are not captured
  Capture capture_;                 ///< the last one
};

}  // namespace tutti::exec::cuda
