// The composition root: the only place that names concrete transports, algorithms and executors.
#pragma once

#include <cstdint>
#include <memory>

#include "src/base/settings.hpp"
#include "src/comm/runtime.hpp"
#include "src/transport/transport.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Everything that this build and this machine offer, in order of preference. Starts the process's
/// service thread, which ends with the last reference.
Result<std::shared_ptr<Runtime>> make_runtime(const Settings& settings);

/// The transports between hosts as make_runtime opens them. `token`: of this process. RDMA is
/// kUnsupported in a build without it and on a machine without devices, whatever TRANSPORT says.
Result<std::shared_ptr<Transport>> open_tcp(const Settings& settings, std::uint64_t token);
/// `service` looks after RDMA connections while nobody uses them, and may be null.
Result<std::shared_ptr<Transport>> open_rdma(const Settings& settings, std::uint64_t token,
                                             std::shared_ptr<ThisHost> host, Service* service);

}  // namespace tutti
