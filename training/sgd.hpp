// Stochastic gradient descent with momentum on flat ranges (Sutskever et al., ICML 2013, in the
// form of PyTorch: the velocity is not scaled by the learning rate).
//
// Every element is computed by itself, as in adamw.hpp.
#pragma once

#include <span>

namespace tutti::training {

struct Sgd {
  double learning_rate = 1e-2;
  double momentum = 0;  ///< 0: none, and no state
  double weight_decay = 0;
  friend bool operator==(const Sgd&, const Sgd&) = default;
};

/// `gradient_scale` multiplies each gradient; `decays`: whether weight decay applies. `velocity` is
/// zero before the first step, and empty without momentum; the other spans have one length.
void sgd_step(const Sgd& options, float gradient_scale, bool decays,
              std::span<const float> gradients, std::span<float> parameters,
              std::span<float> velocity);

}  // namespace tutti::training
