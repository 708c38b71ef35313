#include "training/frozen_adam.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tutti::training {
namespace {

/// The root of an element's frozen variance, never 0.
class Roots {
 public:
  explicit Roots(const FrozenAdam& how)
      : correction_(static_cast<float>(
            1 / std::sqrt(1 - std::pow(how.adamw.beta2, static_cast<double>(std::max<std::int64_t>(
                                                            1, how.warmup_steps)))))),
        epsilon_(static_cast<float>(how.adamw.epsilon)) {}
  [[nodiscard]] float operator()(float variance) const {
    return std::sqrt(variance) * correction_ + epsilon_;
  }

 private:
  float correction_, epsilon_;
};

}  // namespace

void frozen_prepare(const FrozenAdam& how, AdamWState state, std::span<float> gradients) {
  const Roots roots(how);
  const bool is_shared = how.own_momentum == 0;
  const auto kept = static_cast<float>(is_shared ? how.adamw.beta1 / how.ranks : 0);
  const double rest = is_shared ? 1 - how.adamw.beta1 : 1 - static_cast<double>(how.own_momentum);
  const auto added = static_cast<float>(rest * static_cast<double>(how.gradient_scale));
  for (std::size_t i = 0; i < gradients.size(); ++i)
    gradients[i] = (kept * state.first[i] + added * gradients[i]) / roots(state.second[i]);
}

void frozen_momentum(const FrozenAdam& how, std::span<const float> second, std::span<float> sums) {
  const Roots roots(how);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] *= roots(second[i]);
}

void frozen_step(const FrozenAdam& how, std::int64_t step, float shrinks, bool decays,
                 std::span<const float> momentum, std::span<float> parameters, AdamWState state) {
  const Roots roots(how);
  const double bias = 1 - std::pow(how.adamw.beta1, static_cast<double>(step));
  const auto rate = static_cast<float>(how.adamw.learning_rate / bias) * shrinks;
  const double decay = decays ? how.adamw.learning_rate * how.adamw.weight_decay : 0;
  const auto kept = static_cast<float>(1 - decay);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    state.first[i] = momentum[i];
    parameters[i] = parameters[i] * kept - rate * momentum[i] / roots(state.second[i]);
  }
}

}  // namespace tutti::training
