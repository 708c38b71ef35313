// Checks that all ranks got the same options. Otherwise they would train different models, or wait
// for each other forever.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/train/options.hpp"
#include "tutti/communicator.hpp"
#include "tutti/error.hpp"

namespace tutti::trainer {

/// "--batch 32": what has to be the same on all ranks, of options and data.
std::vector<std::string> shared_options(const Options& options, std::uint32_t data_hash);

/// Collective. kPeerFailed on all ranks, with the first rank that differs from rank 0, and in what.
Status agree_on_options(Comm& comm, const std::vector<std::string>& mine);

}  // namespace tutti::trainer
