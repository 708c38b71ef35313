// Trains a LibTorch model over ranks: puts any module's parameters and gradients where an Engine
// has them, and tells it what the passes do.
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
// A module on a GPU computes there with copies of its parameters. All that lasts (parameters,
// gradients, masters, moments) is in host memory, where ranks exchange it and steps are taken: what
// is copied is each parameter once a step, or a unit's whenever it is gathered, and each gradient
// (ZeRO-Offload, Ren et al., USENIX ATC 2021). After Engine::load() copies are of before until the
// next forward() or evaluate().
//
// Parameters become views of the engine's memory, of plan.compute, and are read as ever. In kZero3
// a unit's are there while the unit runs, forward or backward, and have no memory otherwise: touch
// them inside forward(), backward() and evaluate() alone, and a unit's through its forward() alone.
// Gradients leave through the engine: grad() of a parameter is undefined after backward().
//
// What LibTorch throws becomes an Error here: kInvalidArgument with its words. An error of one rank
// ends training on all, which get kPeerFailed with its text; every later call returns that.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
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
  /// A parameter without a gradient in a pass counts as zeros, instead of as an error.
  bool zeros_for_unused = false;
  /// Whether weight decay applies. Empty: to parameters of two dimensions and more.
  std::function<bool(const std::string& name, const torch::Tensor& parameter)> decays = {};
  /// The module computes with copies of its parameters. Always so on a GPU.
  bool copies_parameters = false;
  /// In which gradients get ready, as learn_order() gives it. Empty: the reverse of the table.
  std::vector<ParameterId> order = {};
};

/// What is trained of a module: parameters that need a gradient, in the order of registration, a
/// tensor that has several names once, under its first.
struct TrainedParameters {
  ParameterTable table;
  std::vector<torch::Tensor> tensors;  ///< by ParameterId
  torch::Device device = torch::kCPU;  ///< that all are on
};
Result<TrainedParameters> trained_parameters(const torch::nn::Module& module,
                                             const DistributedOptions& options = {});

/// The order in which gradients get ready: runs `loss` and its backward pass on rank 0, on a module
/// that is not distributed yet, and drops the gradients. Parameters without one come last.
/// Collective; the other ranks compute nothing.
Result<std::vector<ParameterId>> learn_order(const torch::nn::Module& module,
                                             const std::function<torch::Tensor()>& loss,
                                             Comm& world);

/// One rank's. One thread at a time. Resource.
class DistributedModel {
 public:
  /// Collective; `world` outlives it, and nobody else uses it meanwhile. Rank 0's parameters, those
  /// that are frozen, and buffers become everybody's. `units`: modules inside `module`, none inside
  /// another, in the order of their first use; what is in none, or in several, makes the unit
  /// "root", which is kept whole in a step. kInvalidArgument: a unit that is not in `module`, or in
  /// another; a parameter that is not dense and float32, or not on the same CPU or GPU as the
  /// others.
  static Result<std::unique_ptr<DistributedModel>> create(std::shared_ptr<torch::nn::Module> module,
                                                          const UnitModules& units,
                                                          const DistributedOptions& options,
                                                          Comm& world);
  /// Leaves the module's trained parameters without elements, and graphs that use them void.
  ~DistributedModel();
  DistributedModel(const DistributedModel&) = delete;
  DistributedModel& operator=(const DistributedModel&) = delete;

  /// Runs `compute`, which gives the loss, a scalar.
  Result<torch::Tensor> forward(const std::function<torch::Tensor()>& compute);
  /// Of the last forward(). `is_last`: of this step. kInvalidUsage names parameters that got no
  /// gradient, unless they count as zeros.
  Status backward(const torch::Tensor& loss, bool is_last);
  Result<StepOutcome> step(const StepOptions& options);
  /// Runs `compute`, which calls the model, without gradients and as eval() has it. Where
  /// parameters are in shards, all ranks call alike.
  Status evaluate(const std::function<void()>& compute);
  /// Parameters of all ranks, as float32 masters have them, and this rank's frozen ones and
  /// buffers, into a module of the same names that is not distributed. Collective; `plain` may be
  /// null on ranks that need no copy. kInvalidArgument, which ends nothing: `plain` lacks a name.
  Status copy_to(torch::nn::Module* plain);

  /// For what is not about tensors: checkpoints, times, memory, traffic.
  [[nodiscard]] Engine& engine();

 private:
  struct Parts;
  explicit DistributedModel(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

/// Moves parameters and buffers of a module that is not distributed. kUnavailable: no memory there.
Status move_to(torch::nn::Module& module, torch::Device device);

/// How many threads LibTorch and the BLAS below it compute with in this process. LibTorch's own
/// function does not reach an OpenBLAS with threads of its own, which then takes all cores for each
/// rank.
void set_compute_threads(int threads);

/// Has the C library keep memory of freed tensors for those that come, in this process, instead of
/// giving it back to the kernel, which clears every page of the next large tensor anew. The process
/// keeps the most that it ever needed. Steps of GPTs of 1 to 11 million parameters took 0 to 12 %
/// less time (one thread of an EPYC of family 25, LibTorch 1.13.1, November 2026).
void keep_freed_memory();

}  // namespace tutti::training
