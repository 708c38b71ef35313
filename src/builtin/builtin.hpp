// The composition root: the only place that names concrete transports, algorithms and executors.
#pragma once

#include <memory>

#include "src/base/settings.hpp"
#include "src/comm/runtime.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Everything that this build and this machine offer, in order of preference. Starts the process's
/// service thread, which ends with the last reference.
Result<std::shared_ptr<Runtime>> make_runtime(const Settings& settings);

}  // namespace tutti
