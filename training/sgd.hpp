// Stochastic gradient descent with momentum on flat ranges (Sutskever et al., ICML 2013, in
// PyTorch's form: the learning rate does not scale the velocity).
//
// Every element is computed independently, as in adamw.hpp.
#pragma once

#include <span>

namespace tutti::training {

struct Sgd {
  double learning_rate = 1e-2;
  double momentum = 0;  ///< 0: none, and no state
  double weight_decay = 0;
  friend bool operator==(const Sgd&, const Sgd&) = default;
};

/// `gradient_scale` multiplies each gradient. `decays`: whether weight decay applies. `velocity` is
/// zero before the first step, and empty without momentum. The other spans have the same length.
void sgd_step(const Sgd& options, float gradient_scale, bool decays,
              std::span<const float> gradients, std::span<float> parameters,
              std::span<float> velocity);

}  // namespace tutti::training
