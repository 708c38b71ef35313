// A part of a LibTorch model that is used as a whole: what is gathered together where parameters
// are in shards, and what is computed again in the backward pass where activations are not kept.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

namespace tutti::training {

/// A module that takes one tensor and gives one, and all of whose parameters are used in compute()
/// alone. C++ modules of LibTorch have no hooks around forward(), so what is done around it is done
/// here. Resource.
class UnitModule : public torch::nn::Module {
 public:
  /// What the owner of the model asked to be done around compute(); else compute().
  torch::Tensor forward(const torch::Tensor& input) {
    return around_ ? around_(input) : run(input);
  }
  /// compute(), or recomputed() of it.
  torch::Tensor run(const torch::Tensor& input);

  /// Whether activations inside are computed again in the backward pass instead of kept.
  void set_recomputes(bool recomputes) { recomputes_ = recomputes; }
  /// Calls run() once, with its argument or an alias of it, and gives its result or an alias of
  /// that. Empty: none.
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
