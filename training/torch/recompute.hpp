// Activation checkpointing: saves the memory of activations by computing them twice (Chen et al.,
// Training Deep Nets with Sublinear Memory Cost, 2016).
#pragma once

#include <functional>
#include <vector>

#include <torch/types.h>

namespace tutti::training {

using Compute = std::function<torch::Tensor(const std::vector<torch::Tensor>& inputs)>;

/// Returns compute(inputs), and keeps only the inputs for the backward pass. That pass computes the
/// rest again, with the same random numbers of the default CPU generator, and gets the same bits as
/// without recomputing. `parameters`: every other tensor that compute() uses and that needs a
/// gradient; one that it does not use gets none. Each gets its gradient once per backward pass,
/// from the surrounding graph, so the order is the same on every rank.
torch::Tensor recomputed(const Compute& compute, const std::vector<torch::Tensor>& inputs,
                         const std::vector<torch::Tensor>& parameters);

}  // namespace tutti::training
