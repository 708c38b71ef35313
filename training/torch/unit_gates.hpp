// The parameters of sharded units: gathered before a unit runs, forward or backward, and released
// after it.
//
// A unit's parameters are views of one storage. It points to the window that holds the unit, or
// nowhere. What autograd keeps of a parameter, such as its transposed view, shares the storage. So
// it has the right values wherever the unit is gathered in the backward pass, without copies.
//
// On a GPU that storage is a copy, made when the unit is gathered and freed when it is released.
//
// In the graph a unit stands between two nodes that change no gradient:
//
//   input -> [leave] -> the unit's own nodes -> [enter] -> output
//
// [enter] runs first in the backward pass, and gathers. [leave] runs when the input's gradient is
// known, and releases. Autograd runs the latest recorded nodes first, so by then it has run all
// nodes of the unit. If the input needs no gradient there is no [leave], and the unit ends when all
// its parameters have their gradients.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <c10/core/StorageImpl.h>
#include <torch/types.h>

#include "training/engine.hpp"
#include "training/torch/unit.hpp"

namespace tutti::training {

/// One rank's gates; owned by a shared_ptr. Functions throw Failure. `engine` must outlive it.
/// Resource.
class UnitGates : public std::enable_shared_from_this<UnitGates> {
 public:
  /// Makes the tensors (by ParameterId) views of their units' memory, or of copies on `copies_on`.
  UnitGates(Engine& engine, const std::vector<torch::Tensor>& tensors,
            std::optional<torch::Device> copies_on);

  /// Runs unit.run(input) between its gates.
  torch::Tensor pass(GroupId id, UnitModule& unit, const torch::Tensor& input);

  /// From use() to release() the unit's parameters have values. Uses may overlap.
  void use(GroupId unit, Pass pass);
  void release(GroupId unit, Pass pass);

  void begin_backward();
  /// A parameter's gradient has arrived and was taken.
  void has_gradient(ParameterId id);
  /// Releases units that no gradient passed through.
  void end_backward();

 private:
  struct State {
    c10::intrusive_ptr<c10::StorageImpl> storage;
    int uses = 0;
    int ends_with_gradients = 0;       ///< number of uses without a [leave]
    std::size_t without_gradient = 0;  ///< number of parameters, in this pass
  };
  [[nodiscard]] c10::DataPtr shown(std::span<std::byte> memory) const;
  void enter(GroupId unit, bool has_leave);

  Engine& engine_;
  std::optional<torch::Device> copies_on_;
  std::vector<State> units_;  ///< by GroupId
};

}  // namespace tutti::training
