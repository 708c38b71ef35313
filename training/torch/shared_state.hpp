// State that is not trained but equal on all ranks.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <torch/types.h>

#include "tutti/communicator.hpp"
#include "tutti/error.hpp"

namespace tutti::training {

/// Gives all ranks rank 0's values. Collective. kPeerFailed names a rank that has other tensors,
/// and the first of these.
Status broadcast_tensors(const std::vector<std::pair<std::string, torch::Tensor>>& tensors,
                         Comm& world);

}  // namespace tutti::training
