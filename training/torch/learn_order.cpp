// learn_order(): the order in which gradients get ready, seen once.
#include <cstdint>
#include <span>
#include <vector>

#include "training/agreement.hpp"
#include "training/outcome.hpp"
#include "training/torch/distributed.hpp"
#include "training/torch/failure.hpp"
#include "training/torch/gradient_hooks.hpp"

namespace tutti::training {
namespace {

/// On this rank; parameters without a gradient last.
std::vector<ParameterId> order_of(const std::vector<torch::Tensor>& tensors,
                                  const std::function<torch::Tensor()>& loss) {
  std::vector<ParameterId> order;
  std::vector<bool> has_come(tensors.size());
  const GradientHooks hooks(tensors, [&](ParameterId id, const torch::Tensor& /*gradient*/) {
    order.push_back(id);
    has_come[id] = true;
  });
  loss().backward();
  for (ParameterId id = static_cast<ParameterId>(tensors.size()); id-- > 0;) {
    if (!has_come[id]) order.push_back(id);
  }
  return order;
}

}  // namespace

Result<std::vector<ParameterId>> learn_order(const torch::nn::Module& module,
                                             const std::function<torch::Tensor()>& loss,
                                             Comm& world) {
  const auto trained = trained_parameters(module);
  TRAINING_TRY(agree(world, trained ? ok_status() : Status(trained.error())));
  TRAINING_TRY(agree_on_model(world, trained->table, 0));
  std::vector<ParameterId> order(trained->tensors.size());
  Status ran = ok_status();
  if (world.rank() == 0) ran = guarded([&] { order = order_of(trained->tensors, loss); });
  TRAINING_TRY(agree(world, ran));
  TRAINING_TRY(world.broadcast<std::uint32_t>(order, 0));
  return order;
}

}  // namespace tutti::training
