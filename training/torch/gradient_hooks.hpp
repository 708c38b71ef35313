// Tells when the gradient of a parameter is complete.
//
// Autograd adds up all that flows to a leaf and hands the sum to its accumulator, once in a
// backward pass. What is done after that runs on the thread of the pass.
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
  /// Calls `arrived` with the gradient of tensors[id], of any layout of memory, which is that of
  /// one backward pass; grad() is undefined when it is called. What it throws ends the pass.
  using Arrived = std::function<void(ParameterId id, const torch::Tensor& gradient)>;
  GradientHooks(const std::vector<torch::Tensor>& tensors, Arrived arrived);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

 private:
  /// A counted pointer, of which kind depends on LibTorch's version; a tensor has it weakly.
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
