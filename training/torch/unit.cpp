#include "training/torch/unit.hpp"

#include "training/torch/recompute.hpp"

namespace tutti::training {

torch::Tensor UnitModule::run(const torch::Tensor& input) {
  if (!recomputes_) return compute(input);
  return recomputed([this](const std::vector<torch::Tensor>& inputs) { return compute(inputs[0]); },
                    {input}, parameters());
}

}  // namespace tutti::training
