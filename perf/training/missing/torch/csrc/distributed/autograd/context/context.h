// Stands in where LibTorch was installed without this header, which its reducer.hpp includes
// (Debian's libtorch-dev 1.13). Names the two types that the reducer's declaration needs; nothing
// here makes use of distributed autograd.
#pragma once

#include <functional>
#include <memory>

#include <ATen/core/Tensor.h>

namespace torch::distributed::autograd {

class DistAutogradContext {
 public:
  using GradCallback = std::function<bool(at::Tensor&)>;
};
using ContextPtr = std::shared_ptr<DistAutogradContext>;

}  // namespace torch::distributed::autograd
