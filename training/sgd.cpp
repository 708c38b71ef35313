#include "training/sgd.hpp"

#include <cstddef>

namespace tutti::training {

void sgd_step(const Sgd& options, float gradient_scale, bool decays,
              std::span<const float> gradients, std::span<float> parameters,
              std::span<float> velocity) {
  const auto rate = static_cast<float>(options.learning_rate);
  const auto momentum = static_cast<float>(options.momentum);
  const auto decay = static_cast<float>(decays ? options.weight_decay : 0);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    float direction = gradients[i] * gradient_scale + decay * parameters[i];
    if (!velocity.empty()) {
      direction += momentum * velocity[i];
      velocity[i] = direction;
    }
    parameters[i] -= rate * direction;
  }
}

}  // namespace tutti::training
