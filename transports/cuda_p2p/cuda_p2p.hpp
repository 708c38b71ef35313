// Memory of GPUs that the GPUs of other ranks load from and store to: through NVLink or PCIe, by
// the means of the CUDA driver.
//
// A rank's GPU reaches that of
//   a rank of the same process  at the same address, once its device is granted access;
//   a process of the same host  by a file descriptor of the memory, which goes over a unix socket;
//                               by an IPC handle on devices without memory handles;
//   a process of another host   by a fabric handle (NVLink domains of several hosts).
//
// share() takes four steps. Each ends in one all_gather, in which a rank with a problem says so: so
// all ranks take the same decision, and nobody waits for somebody who has given up.
//   offer   each rank allocates and clears its area, with a probe page behind it, and tells where
//           it is and how to reach it. From the offers alone follows whether GPUs are shared by
//           ranks, or are on hosts that no fabric joins.
//   import  each rank maps the memory of all others.
//   store   each rank's GPU stores a pattern in every peer's probe page (probe.hpp says why),
//   load    finds those of its peers in its own page, and loads from theirs.
// Where a step fails somewhere, share() returns null on all ranks and logs one line.
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
  /// Of clearing an area and of each half of the probe. Generous: a GPU may be busy.
  Nanos probe_deadline = std::chrono::seconds(5);
  /// Of passing descriptors, to which all ranks come at the same time.
  Nanos swap_deadline = std::chrono::seconds(10);
};

/// One per process: ranks of one process find each other's memory in it, and must not be told apart
/// by PeerMemoryRequest::process_token.
std::unique_ptr<PeerMemoryTransport> make_cuda_p2p(cuda::SharedDriver driver,
                                                   CudaP2pOptions options = {});

}  // namespace tutti
