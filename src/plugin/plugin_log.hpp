// Plugins log through a function of their host, with the levels and subsystems of NCCL, which are
// Tutti's as well.
#pragma once

#include <string>

#include "src/plugin/abi.hpp"

namespace tutti::plugin {

/// Writes to Tutti's log, and remembers the last warning of this thread.
abi::Logger logger();
/// Drops everything.
abi::Logger silent_logger();

/// The last warning that a plugin logged on this thread since the last call; empty if none.
std::string take_last_warning();

}  // namespace tutti::plugin
