// Calls on GPU buffers, in the order of the caller's streams.
//
// Where all ranks of a communicator are threads of this process and use one GPU, a collective is a
// few kernels over the buffers of all of them (src/exec/cuda/joint_calls.hpp). Where each has a GPU
// and these reach each other's memory, it is a kernel on each (src/comm/peer_calls.hpp). Everything
// else runs on the host, on copies that pass through host memory (src/exec/cuda/host_staging.hpp).
// Of that, messages between hosts need no copies where NICs reach memory of the GPUs and the
// buffers are registered (src/comm/nic_memory.hpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "src/comm/group_context.hpp"
#include "src/comm/group_member.hpp"
#include "src/comm/nic_memory.hpp"
#include "src/comm/parts.hpp"
#include "src/comm/peer_calls.hpp"
#include "src/comm/runtime.hpp"
#include "src/exec/cuda/enqueue_barrier.hpp"
#include "src/exec/cuda/host_staging.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// A step of calls whose data has reached the host. What waits for it in the stream goes on when
/// this ends, whether it was run or not. Value.
class HostStep {
 public:
  struct Plan {
    std::vector<Part> parts;
    std::vector<CopyRange> in, out;  ///< of ordinary host memory
  };
  HostStep(std::shared_ptr<const Plan> plan, std::shared_ptr<exec::cuda::SlotUse> use)
      : plan_(std::move(plan)), use_(std::move(use)) {}

  /// Runs the calls, as a group on `member`, in the memory that the data passes through.
  Status run(GroupMember& member) const;

 private:
  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<exec::cuda::SlotUse> use_;
};

/// Is handed each step in order, on a thread of the CUDA driver: it must neither wait nor call
/// CUDA.
using HostStepSink = std::function<void(HostStep)>;

/// The GPUs that this process may use; 0 where it makes host communicators.
int device_count(const Runtime& runtime);
/// The device that CUDA communicators which this thread makes use; none where the process makes
/// host communicators.
Result<std::optional<int>> current_device(const Runtime& runtime);
/// "GPU 0 (NVIDIA H100 80GB HBM3, 0000:07:00.0)". kUnsupported where no communicator can use it.
Result<std::string> device_label(const Runtime& runtime, int device);

class DeviceCalls;
class PageableBuffers;

/// Calls of one rank of a communicator, to be put onto its streams: all that take part in a group.
struct DeviceWork {
  DeviceCalls* device = nullptr;
  std::span<const Call> calls;  ///< valid ones
  std::span<const exec::cuda::StreamHandle> streams;
  HostStepSink sink;  ///< of what passes through the host
  /// Raised by whoever aborts the communicator: ends waits for other ranks.
  const Cancellation* aborted = nullptr;
};

/// Calls of one rank on their way through the host.
class DeviceLaunch {
 private:
  friend class DeviceCalls;
  DeviceCalls* calls_ = nullptr;
  exec::cuda::HostStagingLaunch host_staging_;
  /// For the EnqueueBarrier: the marks that this rank sets when it has opened a step, and those of
  /// other ranks that it awaits before it closes the step.
  struct Marks {
    std::vector<exec::cuda::Mark> own, others;
  };
  std::vector<Marks> marks_;  ///< of each step
  const Cancellation* aborted_ = nullptr;
  exec::cuda::StreamHandle stream_ = nullptr;
  bool synchronous_ = false;
  bool waits_for_peers_ = true;
};

/// The GPU side of one rank of a communicator. Used by one thread at a time. Resource.
class DeviceCalls {
 public:
  /// Collective over the ranks. `device` as CUDA numbers it. `runtime` must have CUDA, and outlive
  /// it, as `communicator`.
  static Result<std::unique_ptr<DeviceCalls>> create(const Runtime& runtime,
                                                     GroupContext& communicator, int device,
                                                     Deadline deadline);
  /// Waits for kernels that are under way; `communicator` has to be aborted if they may not end.
  ~DeviceCalls();

  /// Any thread: why calls cannot go on, which the communicator does not know.
  [[nodiscard]] Status health() const { return peers_ ? peers_->health() : ok_status(); }

  /// Whether calls can be enqueued, which has to follow; then, whether they go into a graph.
  /// kInvalidArgument: memory of another GPU. kInvalidUsage: some streams are being captured and
  /// others not, or the call is on ordinary host memory.
  Result<bool> check(std::span<const Call> calls,
                     std::span<const exec::cuda::StreamHandle> streams);

  /// Enqueues checked calls of different ranks together, each on the first of its rank's streams.
  /// Buffers of ordinary host memory pass too; then it returns when all is over, as cudaMemcpyAsync
  /// would. After an error some may be enqueued and others not.
  static Status enqueue(std::span<const DeviceWork> works);

 private:
  /// How long ranks of one process wait for each other before they enqueue what waits for all.
  static constexpr std::chrono::seconds kPeerPatience{1};

  DeviceCalls(const Runtime& runtime, const GroupContext& communicator, int device);
  Result<bool> is_pageable(const void* buffer, std::string_view name) const;
  Result<PageableBuffers> pageable_of(std::span<const Call> calls) const;

  Result<DeviceLaunch> begin(const DeviceWork& work, std::span<const Call> calls);
  Status find_nics(const Runtime& runtime, GroupContext& communicator, Deadline deadline);
  Result<bool> goes_by_nic(const Call& call) const;
  [[nodiscard]] bool is_registered(const Call& call) const;
  DeviceLaunch::Marks marks_of(const StagingStep& step);
  void await_peers(DeviceLaunch& launch) const;
  Result<bool> advance(DeviceLaunch& launch) const;
  Status synchronize(const DeviceLaunch& launch) const;
  static Status enqueue_host_staging(std::span<DeviceLaunch> launches);

  [[nodiscard]] bool kernels_end() const;
  Result<bool> runs_on_peers(const Call& call);
  Status finish_on_peers();
  static Status enqueue_on_peers(std::span<const DeviceWork> works);

  Status come(const DeviceWork& work, const Call& call);
  void keep_out();
  static Status enqueue_jointly(std::span<const std::pair<const DeviceWork*, const Call*>> calls);
  Result<bool> was_launched(const DeviceWork& work);
  Result<bool> can_join(const Call& call, std::span<const exec::cuda::StreamHandle> streams) const;
  using JointEvent = std::shared_ptr<cuda::Event>;
  Result<JointEvent> launch_for_all(const Call& call,
                                    const std::vector<exec::cuda::JointRank>& ranks);
  using Passes = std::vector<exec::cuda::LocalPassPlaces>;
  Result<const Passes*> passes_of(const Call& call, bool in_place);

  const cuda::SharedDriver driver_;
  const int device_;
  const Rank rank_;
  const std::int32_t size_;
  const std::size_t slot_bytes_;
  std::vector<Rank> neighbours_;  ///< the other ranks of this process
  std::shared_ptr<exec::cuda::EnqueueBarrier> enqueue_barrier_;
  std::map<exec::cuda::Progression, std::uint64_t> counts_;  ///< of calls that were begun
  exec::cuda::HostStaging host_staging_;

  NicMemory* nic_memory_ = nullptr;  ///< not null where nics_ has any
  /// By rank, whether NICs carry messages from this GPU to that one; none: to none.
  std::vector<bool> nics_;
  /// Bytes of calls that the host ran: copied in and out, and moved where they were.
  struct Passed {
    std::size_t in = 0, out = 0, in_place = 0;
  };
  Passed passed_;
  bool nics_join_all_ = false;  ///< each rank and every other; all ranks know the same
  const GroupContext& communicator_;
  exec::cuda::Kernels& kernels_;
  /// Null where ranks have no GPU in common, or there are no kernels.
  std::shared_ptr<exec::cuda::JointCalls> joint_;
  std::uint64_t joint_calls_ = 0;  ///< collectives that were begun
  JointEvent ready_, done_;
  /// By signature and whether in place; empty ones where there is no such program.
  using PassesKey = std::tuple<Collective, DataType, ReduceOp, Rank, std::uint64_t, bool>;
  std::map<PassesKey, Passes> passes_;

  std::unique_ptr<PeerCalls> peers_;           ///< null where GPUs do not reach each other
  std::vector<PeerCalls::Prepared> prepared_;  ///< by check()
  bool keeps_memory_ = false;                  ///< nobody can tell when kernels end
};

}  // namespace tutti
