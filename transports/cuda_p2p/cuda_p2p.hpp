// GPU memory that other ranks' GPUs load from and store to, over NVLink or PCIe, by means of the
// CUDA driver.
//
// A rank's GPU reaches the GPU of
//   a rank of the same process  at the same address, once its device is granted access;
//   a process of the same host  by a file descriptor of the memory, passed over a unix socket, or
//   by
//                               an IPC handle on devices without memory handles;
//   a process of another host   by a fabric handle (NVLink domains of several hosts).
//
// share() has four steps. Each ends in one all_gather, in which a rank reports its problem, if any.
// So all ranks take the same decision, and none waits for a rank that has given up.
//   offer   each rank allocates and zeroes its area, with a probe page after it, and tells where it
//           is and how to reach it. The offers show whether ranks share GPUs, or are on hosts that
//           no fabric connects.
//   import  each rank maps the memory of all others.
//   store   each rank's GPU stores a pattern in every peer's probe page (probe.hpp says why).
//   load    each rank finds its peers' patterns in its own page, and loads from their pages.
// If a step fails on any rank, share() returns null on all ranks and logs one line.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "src/base/clock.hpp"
#include "src/cuda/driver.hpp"
#include "src/transport/peer_memory.hpp"

namespace tutti {

struct CudaP2pOptions {
  std::string host_id{};  ///< the user's setting; "": what the kernel says
  /// For zeroing an area and for each half of the probe. Generous, because a GPU may be busy.
  Nanos probe_deadline = std::chrono::seconds(5);
  /// For passing descriptors, which all ranks begin at the same time.
  Nanos swap_deadline = std::chrono::seconds(10);
};

/// One per process: ranks of one process find each other's memory in it. They must all have the
/// same PeerMemoryRequest::process_token.
std::unique_ptr<PeerMemoryTransport> make_cuda_p2p(cuda::SharedDriver driver,
                                                   CudaP2pOptions options = {});

}  // namespace tutti
