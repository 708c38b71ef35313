// Work of the host in the order of a CUDA stream: how calls on GPU buffers run where no GPU reaches
// the memory of the others.
//
// A launch is a row of steps. For each of them the stream
//
//   copies in                from the caller's buffers to a slot of host memory
//   calls a host function    which hands the slot to the host's work
//   waits at the slot's gate which opens when the work is over
//   copies out               from the slot to the caller's buffers.
//
// Two slots take turns, so the host works on one step while the stream copies for the next. The
// caller has only enqueued all that; and since no kernel of one rank ever waits for one of another,
// ranks may share a GPU, by threads or by processes, in any mix. In a stream that is being captured
// the same commands become nodes of its graph: what they wait for is memory, which they reset, and
// so a graph replays them as often as it likes.
//
// A gate at the head of a hardware queue holds up whatever else was put into that queue, also by
// other streams of the process. Nothing that opens a gate may therefore be behind it: ranks of one
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

/// A slot while the host works on it: the gate opens when this ends, however it ends. Resource.
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
  std::size_t bytes = 0;  ///< of the slot
  /// Called on a thread of the driver when the copies in are over, once for each time that the step
  /// runs; it must neither wait nor call CUDA, but hand the use on. What it captures lives for as
  /// long as the step may run.
  std::function<void(std::shared_ptr<SlotUse> use)> work;
};

/// The slots that launches, one after another, take turns at.
struct SlotSet;
/// What a launch's host functions find when they run.
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

  /// Enqueues what comes next: first the copies in of as many steps as there are slots, then, each
  /// time, the gate and the copies out of one step, and the copies in of another. False once all is
  /// enqueued. After an error nothing more is; what was enqueued runs to its end.
  Result<bool> advance();
  /// Steps whose copies in are enqueued.
  [[nodiscard]] std::size_t opened() const { return opened_; }
  /// Steps that are enqueued whole.
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
  bool runs_once_ = true;  ///< it is not being captured
  bool finished_ = false;
  std::size_t opened_ = 0, closed_ = 0;
};

/// Host staging of one rank of a communicator. Used by one thread at a time, with the context of
/// its device current. Resource.
class HostStaging {
 public:
  HostStaging(tutti::cuda::SharedDriver driver, int device, std::shared_ptr<SlotPool> pool)
      : driver_(std::move(driver)), device_(device), pool_(std::move(pool)) {}

  /// Whether what begins on these streams goes into a graph, and which. kInvalidUsage: on some of
  /// them alone.
  Result<tutti::cuda::CaptureState> capture(std::span<const StreamHandle> streams) const;

  /// Makes the first of `streams` wait for what the others did before, and for the last launch, as
  /// begin() does; for commands of others that have to keep the same order.
  Status follow(std::span<const StreamHandle> streams, const tutti::cuda::CaptureState& capture);
  /// What comes next follows what the first of `streams` does now, and the others wait for that.
  Status mark(std::span<const StreamHandle> streams, const tutti::cuda::CaptureState& capture);
  /// Whether all is over that was launched; graphs are not seen.
  [[nodiscard]] Result<bool> idle() const;

  /// Launches run in the order in which they begin, whatever their streams: the first of `streams`
  /// runs the steps, behind what all of them did before, and the others wait for it.
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
  std::shared_ptr<SlotSet> slots_;  ///< of launches that nobody captures
  Capture capture_;                 ///< the last one
};

}  // namespace tutti::exec::cuda
