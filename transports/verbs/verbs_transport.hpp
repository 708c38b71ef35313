// RDMA by libibverbs: InfiniBand and RoCE.
//
// Each pair of processes has one authenticated TCP connection, over which they open their queue
// pairs, and which tells at once when a process ends. Data takes the queue pairs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "src/base/clock.hpp"
#include "src/transport/transport.hpp"
#include "src/verbs/device.hpp"
#include "src/wire/net.hpp"
#include "transports/verbs/rails.hpp"

namespace tutti {

class Service;

struct VerbsOptions {
  std::uint64_t token = 0;       ///< of this process
  InterfaceChoice interfaces{};  ///< of the TCP connections
  verbs::PortWishes ports{};
  /// Says which of the ports in use are near to this process. Called once, by whoever first asks
  /// the transport for its address. Null: all are alike.
  std::function<verbs::NearPorts(std::span<const verbs::Rail>)> near{};
  verbs::OwnPath path{};  ///< traffic class, service level, timeout, retries
  std::uint8_t pairs_of_each_rail = 1;
  /// Looks after connections while nobody uses them. It must outlive the transport. Null: nobody
  /// does, and a path that fails is drained once both sides make calls.
  Service* service = nullptr;
  /// A host that does not answer for this long is dead.
  Nanos liveness = std::chrono::seconds(15);
};

/// kUnsupported if the machine has no RDMA device, kUnavailable, with the reasons, if none of them
/// has a port of use.
Result<std::shared_ptr<Transport>> make_verbs_transport(const verbs::SharedLibrary& library,
                                                        const VerbsOptions& options);

}  // namespace tutti
