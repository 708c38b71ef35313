// What is not trained, but the same on all ranks.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <torch/types.h>

#include "tutti/communicator.hpp"
#include "tutti/error.hpp"

namespace tutti::training {

/// Rank 0's values become everybody's. Collective. kPeerFailed names a rank that has other tensors,
/// and the first of them.
Status broadcast_tensors(const std::vector<std::pair<std::string, torch::Tensor>>& tensors,
                         Comm& world);

}  // namespace tutti::training
