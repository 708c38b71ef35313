// What the communicators of a process share. src/builtin fills it, the caller owns it and passes it
// in.
#pragma once

#include <memory>
#include <vector>

#include "src/base/settings.hpp"
#include "src/base/shared_heap.hpp"
#include "src/comm/deferred_reclaim.hpp"
#include "src/comm/forests.hpp"
#include "src/comm/imported.hpp"
#include "src/comm/nic_memory.hpp"
#include "src/comm/program_library.hpp"
#include "src/comm/this_host.hpp"
#include "src/cost/calibration_store.hpp"
#include "src/cost/measured_store.hpp"
#include "src/cuda/driver.hpp"
#include "src/exec/cuda/allocations.hpp"
#include "src/exec/cuda/enqueue_barrier.hpp"
#include "src/exec/cuda/image_pool.hpp"
#include "src/exec/cuda/joint_calls.hpp"
#include "src/exec/cuda/kernels.hpp"
#include "src/exec/cuda/slot_pool.hpp"
#include "src/exec/local_board.hpp"
#include "src/exec/staging_pool.hpp"
#include "src/ir/algorithm.hpp"
#include "src/transport/aggregation.hpp"
#include "src/transport/peer_memory.hpp"
#include "src/transport/transport.hpp"

namespace tutti {

class Service;

struct Runtime {
  Settings settings;
  std::shared_ptr<Service> service;  ///< the process's one service thread
  std::uint64_t process_token = 0;   ///< its token, which no other process has
  std::shared_ptr<SharedHeap> heap;
  std::unique_ptr<exec::StagingPool> staging;  ///< in `heap`
  exec::LocalBoard board;
  std::vector<std::shared_ptr<Transport>> transports;  ///< in order of preference
  std::shared_ptr<ThisHost> this_host;
  std::vector<ir::Algorithm> algorithms;
  std::vector<ir::Algorithm> in_network;     ///< those whose schedules have groups
  std::unique_ptr<Aggregation> aggregation;  ///< what adds in the network; null: nothing
  std::string asked_algorithms;              ///< TUTTI_ALGO, or what NCCL_ALGO says of those
  std::unique_ptr<Forests> forests;
  ImportedFiles imported;  ///< this and `forests` before `programs`, whose keys view their names
  ProgramLibrary programs;
  std::unique_ptr<MeasuredStore> tuning;  ///< of trials
  std::unique_ptr<MeasuredStore> table;   ///< of `tutti tune`
  std::unique_ptr<CalibrationStore> calibration;
  DeferredReclaim deferred_reclaim;

  // Of CUDA communicators; null where the process makes host communicators.
  cuda::SharedDriver cuda;
  std::shared_ptr<exec::cuda::SlotPool> slots;
  std::unique_ptr<exec::cuda::Allocations> allocations;
  std::unique_ptr<exec::cuda::EnqueueBarriers> enqueue_barriers;
  std::unique_ptr<exec::cuda::JointBoard> joint_calls;
  std::unique_ptr<exec::cuda::Kernels> kernels;
  std::shared_ptr<exec::cuda::ImagePool> images;
  std::unique_ptr<PeerMemoryTransport> peer_memory;
  std::unique_ptr<NicMemory> nic_memory;  ///< also null where no transport has caps().device_memory
};

}  // namespace tutti
