// Temporary evaluation mode.
#pragma once

#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/utils.h>

namespace tutti::training {

/// While it lives, this thread records no graph, and the module is in eval() mode.
class Evaluating {
 public:
  explicit Evaluating(torch::nn::Module& model) : was_{{&model, model.is_training()}} {
    for (const auto& module : model.modules(/*include_self=*/false)) {
      was_.push_back({module.get(), module->is_training()});
    }
    model.eval();
  }
  ~Evaluating() {
    for (const auto& [module, training] : was_) module->train(training);
  }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  torch::NoGradGuard no_gradients_;
  /// Each module's previous mode. A module comes before those inside it, because train() changes
  /// these, too.
  std::vector<std::pair<torch::nn::Module*, bool>> was_;
};

}  // namespace tutti::training
