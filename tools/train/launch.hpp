// tutti train --ranks N: starts the ranks, and restarts the survivors when one died.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/train/options.hpp"
#include "tutti/error.hpp"

namespace tutti::trainer {

/// Runs `arguments` (program first), which are those that `options` came from, as every rank of a
/// job; with --restarts again, from the last checkpoint, without ranks that a signal ended. Returns
/// the exit code: that of the first rank that failed, kExitPeer where a signal ended one and no
/// restart was left, 128 + signal where this process was told to end and a rank did not do so well.
Result<int> launch(const Options& options, const std::vector<std::string>& arguments);

/// `arguments` without these options and their values, in either form: "--ranks 2", "--ranks=2".
std::vector<std::string> without_options(const std::vector<std::string>& arguments,
                                         const std::vector<std::string>& names);

}  // namespace tutti::trainer
