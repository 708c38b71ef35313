// AdamW whose variance is frozen, so that ranks can add momentum instead of gradients, in few bits
// (Tang et al., 1-bit Adam, ICML 2021, algorithm 1).
//
// Each rank adds its gradients to the momentum that all share, and what ranks add up, rounded, is
// the next momentum. Or each has a momentum of its own, of which the largest values are added up.
//
// Unlike in the paper, momentum is divided by the root of the variance before it is added up, and
// not after. The variance does not change, so that is the same sum. But signs carry one magnitude
// for many elements, and largest values are chosen among many, and only after the division do these
// have magnitudes alike. An element whose variance is small would else be thrown about by what its
// neighbours round off.
//
// Elements are computed independently, and each operation is rounded separately.
#pragma once

#include <cstdint>
#include <span>

#include "training/adamw.hpp"

namespace tutti::training {

struct FrozenAdam {
  AdamW adamw = {};
  std::int64_t warmup_steps = 0;  ///< after which the variance was frozen
  int ranks = 1;                  ///< that add
  float own_momentum = 0;         ///< of each rank, by this factor; 0: AdamW's, which they share
  float gradient_scale = 1;       ///< multiplies the sums of gradients
};

/// gradients = what this rank adds, over the root of the variance: its part of the shared momentum
/// with its gradients; or what its gradients add to its own momentum.
void frozen_prepare(const FrozenAdam& how, AdamWState state, std::span<float> gradients);

/// sums = the momentum, of sums of what ranks added.
void frozen_momentum(const FrozenAdam& how, std::span<const float> second, std::span<float> sums);

/// Takes step number `step`, starting from 1, with that momentum, which becomes state.first.
/// `shrinks` multiplies the step, and not the momentum: for clipping.
void frozen_step(const FrozenAdam& how, std::int64_t step, float shrinks, bool decays,
                 std::span<const float> momentum, std::span<float> parameters, AdamWState state);

}  // namespace tutti::training
