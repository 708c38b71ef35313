// Calls on GPU buffers: they run on the host, in the order of the caller's streams, on copies that
// pass through host memory (src/exec/cuda/detour.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/comm/communicator.hpp"
#include "src/comm/parts.hpp"
#include "src/comm/runtime.hpp"
#include "src/exec/cuda/detour.hpp"
#include "src/exec/cuda/lineup.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// A step of calls whose data has reached the host. What waits for it in the stream goes on when
/// this ends, whether it was run or not. Value.
class HostStep {
 public:
  struct Plan {
    std::vector<Part> parts;
    std::vector<Passage> in, out;  ///< of ordinary host memory
  };
  HostStep(std::shared_ptr<const Plan> plan, std::shared_ptr<exec::cuda::SlotUse> use)
      : plan_(std::move(plan)), use_(std::move(use)) {}

  /// Runs the calls, as a group on `communicator`, in the memory that the data passes through.
  Status run(Communicator& communicator) const;

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
/// "GPU 0 (NVIDIA H100 80GB HBM3, 0000:07:00.0)".
Result<std::string> device_label(const Runtime& runtime, int device);

class DeviceCalls;
class PageableBuffers;

/// Calls of one rank on their way onto its streams.
class DeviceLaunch {
 private:
  friend class DeviceCalls;
  DeviceCalls* calls_ = nullptr;
  exec::cuda::DetourLaunch detour_;
  /// For the Lineup: how far this rank is when it has opened a step, and how far others have to be
  /// before it closes it.
  struct Marks {
    std::vector<exec::cuda::Mark> own, others;
  };
  std::vector<Marks> marks_;  ///< of each step
  exec::cuda::StreamHandle stream_ = nullptr;
  bool synchronous_ = false;
  bool lines_up_ = true;
};

/// The GPU side of one rank of a communicator. Used by one thread at a time. Resource.
class DeviceCalls {
 public:
  /// `device` as CUDA numbers it. `runtime` must have CUDA.
  DeviceCalls(const Runtime& runtime, const Communicator& communicator, int device);

  /// Checks where the buffers lie and cuts the calls, which must be valid. `streams`: all that take
  /// part. Buffers of ordinary host memory pass too; then enqueue() returns when all is over, as
  /// cudaMemcpyAsync would. kInvalidArgument: memory of another GPU. kInvalidUsage: ordinary host
  /// memory in a stream that is being captured.
  Result<DeviceLaunch> begin(std::span<const Call> calls,
                             std::span<const exec::cuda::StreamHandle> streams, HostStepSink sink);

  /// Puts the launches, of different ranks, onto their streams together. After an error some may be
  /// there and others not.
  static Status enqueue(std::span<DeviceLaunch> launches);

  /// Whether what begins on these streams goes into a graph. kInvalidUsage: on some of them alone.
  Result<bool> captures(std::span<const exec::cuda::StreamHandle> streams) const;

 private:
  Result<bool> is_pageable(const void* buffer, std::string_view name) const;
  Result<PageableBuffers> pageable_of(std::span<const Call> calls) const;
  DeviceLaunch::Marks marks_of(const Step& step);
  void line_up(DeviceLaunch& launch) const;
  Result<bool> advance(DeviceLaunch& launch) const;
  Status synchronize(const DeviceLaunch& launch) const;

  const cuda::SharedDriver driver_;
  const int device_;
  const Rank rank_;
  const std::int32_t size_;
  const std::size_t slot_bytes_;
  std::vector<Rank> neighbours_;  ///< the other ranks of this process
  std::shared_ptr<exec::cuda::Lineup> lineup_;
  std::map<exec::cuda::Progression, std::uint64_t> counts_;  ///< of calls that were begun
  exec::cuda::Detour detour_;
};

}  // namespace tutti
