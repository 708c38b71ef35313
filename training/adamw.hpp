// AdamW on flat ranges (Loshchilov and Hutter, ICLR 2019, algorithm 2, with the learning rate
// multiplying the decay as in PyTorch).
//
// Every element is computed independently in float32, and each operation is rounded separately. So
// results do not depend on how parameters are cut into ranges, or on who owns which shard.
#pragma once

#include <cstdint>
#include <span>

namespace tutti::training {

struct AdamW {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  friend bool operator==(const AdamW&, const AdamW&) = default;
};

/// The state for one range of parameters, with the range's length; zero before the first step.
struct AdamWState {
  std::span<float> first, second;  ///< moments
};

/// Takes step number `step`, starting from 1. `gradient_scale` multiplies each gradient. `decays`:
/// whether weight decay applies. All spans have the same length.
void adamw_step(const AdamW& options, std::int64_t step, float gradient_scale, bool decays,
                std::span<const float> gradients, std::span<float> parameters, AdamWState state);

}  // namespace tutti::training
