#include "training/adamw.hpp"

#include <cmath>
#include <cstddef>

namespace tutti::training {

void adamw_step(const AdamW& options, std::int64_t step, float gradient_scale, bool decays,
                std::span<const float> gradients, std::span<float> parameters, AdamWState state) {
  const auto number = static_cast<double>(step);
  const auto beta1 = static_cast<float>(options.beta1), beta2 = static_cast<float>(options.beta2);
  const auto rest1 = static_cast<float>(1 - options.beta1),
             rest2 = static_cast<float>(1 - options.beta2);
  const double bias1 = 1 - std::pow(options.beta1, number),
               bias2 = 1 - std::pow(options.beta2, number);
  const auto rate = static_cast<float>(options.learning_rate / bias1);
  const auto correction = static_cast<float>(1 / std::sqrt(bias2));
  const auto epsilon = static_cast<float>(options.epsilon);
  const double shrinks = decays ? options.learning_rate * options.weight_decay : 0;
  const auto kept = static_cast<float>(1 - shrinks);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const float gradient = gradients[i] * gradient_scale;
    const float first = beta1 * state.first[i] + rest1 * gradient;
    const float second = beta2 * state.second[i] + rest2 * (gradient * gradient);
    state.first[i] = first;
    state.second[i] = second;
    const float size = std::sqrt(second) * correction + epsilon;
    parameters[i] = parameters[i] * kept - rate * first / size;
  }
}

}  // namespace tutti::training
