// UCX (libucp): whatever network it was built for.
//
// Each pair of processes has one authenticated TCP connection, over which they tell the addresses
// of their UCX workers, and which tells at once when a process ends. Data takes the workers, one
// for each connection. UCX's own settings (UCX_TLS, UCX_NET_DEVICES ...) choose what they use.
#pragma once

#include <cstdint>
#include <memory>

#include "src/base/clock.hpp"
#include "src/transport/transport.hpp"
#include "src/wire/net.hpp"
#include "transports/ucx/context.hpp"

namespace tutti {

struct UcxOptions {
  std::uint64_t token = 0;       ///< of this process
  InterfaceChoice interfaces{};  ///< of the TCP connections
  /// A host that does not answer for this long is dead.
  Nanos liveness = std::chrono::seconds(15);
};

Result<std::shared_ptr<Transport>> make_ucx_transport(ucx::SharedContext context,
                                                      const UcxOptions& options);

}  // namespace tutti
