// Activation checkpointing: trades the memory of activations for computing them twice (Chen et al.,
// Training Deep Nets with Sublinear Memory Cost, 2016).
#pragma once

#include <functional>
#include <vector>

#include <torch/types.h>

namespace tutti::training {

using Compute = std::function<torch::Tensor(const std::vector<torch::Tensor>& inputs)>;

/// compute(inputs), of which the inputs alone are kept for the backward pass, which computes the
/// rest again, with the same random numbers of the default CPU generator. The same bits as without.
/// `parameters`: every other tensor that compute() uses and that needs a gradient; one that it does
/// not use gets none. Each gets its gradient once in a backward pass, from the graph around this
/// one, and so in the same order on every rank.
torch::Tensor recomputed(const Compute& compute, const std::vector<torch::Tensor>& inputs,
                         const std::vector<torch::Tensor>& parameters);

}  // namespace tutti::training
