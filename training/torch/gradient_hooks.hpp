// Reports when a parameter's gradient is complete.
//
// Autograd adds up everything that flows to a leaf, and gives the sum to its accumulator once per
// backward pass. Hooks run after that, on the thread of the pass.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <torch/autograd.h>
#include <torch/types.h>

#include "training/parameters.hpp"

namespace tutti::training {

/// Resource.
class GradientHooks {
 public:
  /// Called with the gradient of tensors[id] for one backward pass, in any memory layout; grad() is
  /// undefined at that time. An exception from it ends the pass.
  using Arrived = std::function<void(ParameterId id, const torch::Tensor& gradient)>;
  GradientHooks(const std::vector<torch::Tensor>& tensors, Arrived arrived);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

 private:
  /// A counted pointer whose type depends on LibTorch's version. The tensor holds only a weak
  /// reference.
  using Accumulator =
      decltype(torch::autograd::impl::grad_accumulator(std::declval<const torch::Tensor&>()));
  struct Hooked {
    Accumulator accumulator;
    std::uintptr_t key = 0;
  };
  Arrived arrived_;
  std::vector<Hooked> hooked_;
};

}  // namespace tutti::training
