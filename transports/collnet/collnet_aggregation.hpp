// Trees that are groups of a CollNet plugin of NCCL, such as SHARP's: TUTTI_COLLNET_ENABLE.
#pragma once

#include <memory>
#include <vector>

#include "src/plugin/collnet_plugin.hpp"
#include "src/transport/aggregation.hpp"
#include "src/wire/net.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct CollnetOptions {
  std::shared_ptr<const plugin::CollNetPlugin> plugin;
  InterfaceChoice interfaces{};  ///< of the connections by which members watch each other
};

/// Groups take turns at the plugin's fastest devices that take memory of the host. kUnsupported if
/// there is none.
Result<std::unique_ptr<Aggregation>> make_collnet_aggregation(CollnetOptions options);

}  // namespace tutti
