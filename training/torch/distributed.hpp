// Trains a LibTorch model on several ranks. Puts any module's parameters and gradients into an
// Engine's memory, and tells the engine what the passes do.
//
//   auto model = make_gpt(options, seed);
//   auto trained = DistributedModel::create(model->ptr(), (*model)->units(), how, *world);
//   for each step:
//     auto loss = trained->forward([&] { return (*model)->loss(tokens, targets); });
//     trained->backward(*loss, /*is_last=*/true);
//     trained->step({.gradient_scale = 1.0 / tokens_of_all_ranks});
//
// The loss is a sum over this rank's tokens or samples; the step divides.
//
// A module on a GPU computes there with copies of its parameters. Everything permanent (parameters,
// gradients, masters, moments) is in host memory, where ranks exchange it and take steps. Each
// parameter is copied once per step, or each time its unit is gathered, and so is each gradient
// (ZeRO-Offload, Ren et al., USENIX ATC 2021). After Engine::load() the copies are stale until the
// next forward() or evaluate().
//
// Parameters become views of the engine's memory with elements of plan.compute, and are read as
// usual. In kZero3 a unit's parameters exist only while the unit runs, forward or backward, and
// have no memory otherwise. So use them only inside forward(), backward() and evaluate(), and a
// unit's parameters only through its forward(). Gradients leave through the engine: grad() of a
// parameter is undefined after backward().
//
// What LibTorch throws becomes an Error here: kInvalidArgument with its text. An error on one rank
// ends training on all ranks, which get kPeerFailed with its text. Every later call returns that
// error.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "training/engine.hpp"
#include "training/torch/unit.hpp"
#include "tutti/communicator.hpp"
#include "tutti/error.hpp"

namespace tutti::training {

struct DistributedOptions {
  PlanOptions plan = {};
  Optimizer optimizer = AdamW{};
  /// A parameter without a gradient in a pass counts as zeros instead of being an error.
  bool zeros_for_unused = false;
  /// Whether weight decay applies to a parameter. Empty: to parameters with two or more dimensions.
  std::function<bool(const std::string& name, const torch::Tensor& parameter)> decays = {};
  /// The module computes with copies of its parameters. Always true on a GPU.
  bool copies_parameters = false;
  /// The order in which gradients become ready, as learn_order() returns it. Empty: reverse table
  /// order.
  std::vector<ParameterId> order = {};
};

/// What is trained of a module: parameters that need a gradient, in registration order. A tensor
/// with several names appears once, under its first name.
struct TrainedParameters {
  ParameterTable table;
  std::vector<torch::Tensor> tensors;  ///< by ParameterId
  torch::Device device = torch::kCPU;  ///< the device of all of them
};
Result<TrainedParameters> trained_parameters(const torch::nn::Module& module,
                                             const DistributedOptions& options = {});

/// The order in which gradients become ready. Runs `loss` and its backward pass on rank 0, on a
/// module that is not distributed yet, and discards the gradients. Parameters without a gradient
/// come last. Collective; the other ranks compute nothing.
Result<std::vector<ParameterId>> learn_order(const torch::nn::Module& module,
                                             const std::function<torch::Tensor()>& loss,
                                             Comm& world);

/// One rank's model. One thread at a time. Resource.
class DistributedModel {
 public:
  /// Collective; `world` must outlive it and must have no other user meanwhile. All ranks get rank
  /// 0's parameters, frozen ones included, and buffers. `units`: modules inside `module`, none
  /// inside another, in the order of first use. Parameters in no unit, or in several, form the unit
  /// "root", which stays whole during a step. kInvalidArgument: a unit that is not in `module`, or
  /// is in another unit; a parameter that is not dense and float32, or not on the same CPU or GPU
  /// as the others.
  static Result<std::unique_ptr<DistributedModel>> create(std::shared_ptr<torch::nn::Module> module,
                                                          const UnitModules& units,
                                                          const DistributedOptions& options,
                                                          Comm& world);
  /// Leaves the module's trained parameters without elements. Graphs that use them become invalid.
  ~DistributedModel();
  DistributedModel(const DistributedModel&) = delete;
  DistributedModel& operator=(const DistributedModel&) = delete;

  /// Runs `compute`, which returns the loss, a scalar.
  Result<torch::Tensor> forward(const std::function<torch::Tensor()>& compute);
  /// For the last forward(). `is_last`: the last of this step. kInvalidUsage names parameters that
  /// got no gradient, unless they count as zeros. `gradient_scale`: see Engine::begin_backward().
  Status backward(const torch::Tensor& loss, bool is_last,
                  std::optional<double> gradient_scale = {});
  Result<StepOutcome> step(const StepOptions& options);
  /// Runs `compute`, which calls the model, without gradients and in eval() mode. If parameters are
  /// sharded, all ranks must call it alike.
  Status evaluate(const std::function<void()>& compute);
  /// Copies the parameters of all ranks, from the float32 masters, and this rank's frozen
  /// parameters and buffers into `plain`, a module with the same names that is not distributed.
  /// Collective; `plain` may be null on ranks that need no copy. kInvalidArgument, which does not
  /// end training: `plain` lacks a name.
  Status copy_to(torch::nn::Module* plain);

  /// For everything but tensors: checkpoints, times, memory, traffic.
  [[nodiscard]] Engine& engine();

 private:
  struct Parts;
  explicit DistributedModel(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

/// Moves parameters and buffers of a module that is not distributed. kUnavailable: no memory there.
Status move_to(torch::nn::Module& module, torch::Device device);

/// Sets how many threads LibTorch and its BLAS use in this process. LibTorch's own function does
/// not reach an OpenBLAS with its own threads, which would then take all cores for each rank.
void set_compute_threads(int threads);

/// Makes the C library keep memory of freed tensors for later ones in this process. Otherwise it
/// returns the memory to the kernel, which zeroes every page of the next large tensor again. The
/// process then keeps the most memory that it ever needed. Steps of GPTs with 1 to 11 million
/// parameters took 0 to 12 % less time (one thread of an EPYC of family 25, LibTorch 1.13.1,
/// November 2026).
void keep_freed_memory();

}  // namespace tutti::training
