// The transport between hosts by a network plugin of NCCL: nccl_net_link.hpp.
#pragma once

#include <cstdint>
#include <memory>

#include "src/base/clock.hpp"
#include "src/plugin/net_plugin.hpp"
#include "src/transport/transport.hpp"
#include "src/wire/net.hpp"

namespace tutti {

struct NcclNetOptions {
  std::uint64_t token = 0;       ///< of this process
  InterfaceChoice interfaces{};  ///< of the sockets beside the plugin's connections
  Nanos liveness = std::chrono::seconds(15);
};

/// Uses the plugin's fastest device that takes host memory. kUnsupported if there is none.
Result<std::shared_ptr<Transport>> make_nccl_net_transport(
    std::shared_ptr<const plugin::NetPlugin> plugin, const NcclNetOptions& options);

}  // namespace tutti
