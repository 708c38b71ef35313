// A part of a LibTorch model that is used as a whole. It is gathered together if parameters are
// sharded, and recomputed in the backward pass if activations are not kept.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

namespace tutti::training {

/// A module that takes and returns one tensor, and whose parameters are used only in compute(). C++
/// modules of LibTorch have no hooks around forward(), so this class provides one. Resource.
class UnitModule : public torch::nn::Module {
 public:
  /// Runs what the model's owner put around compute(), or else compute().
  torch::Tensor forward(const torch::Tensor& input) {
    return around_ ? around_(input) : run(input);
  }
  /// Runs compute(), or recomputed() on it.
  torch::Tensor run(const torch::Tensor& input);

  /// Whether activations inside are recomputed in the backward pass instead of kept.
  void set_recomputes(bool recomputes) { recomputes_ = recomputes; }
  /// Must call run() once, with its argument or an alias of it, and return its result or an alias
  /// of that. Empty: none.
  using Around = std::function<torch::Tensor(const torch::Tensor& input)>;
  void set_around(Around around) { around_ = std::move(around); }

 protected:
  using torch::nn::Module::Module;
  virtual torch::Tensor compute(const torch::Tensor& input) = 0;

 private:
  Around around_;
  bool recomputes_ = false;
};

using UnitModules = std::vector<std::shared_ptr<UnitModule>>;

}  // namespace tutti::training
