// Who keeps what of a model that ranks train together, and what that costs: a value, made before
// anything is allocated or sent.
//
//   kDdp     parameters, gradients and the optimizer's state whole on every rank
//            (Li et al., PyTorch Distributed, VLDB 2020)
//   kZero1   the optimizer's state in shards (ZeRO, Rajbhandari et al., SC 2020, section 5)
//   kZero2   gradients as well
//   kZero3   parameters as well (FSDP, Zhao et al., VLDB 2023)
//
// Shards are those of `shard_ranks` neighbours; with fewer than there are ranks, groups of them are
// replicas of each other (hybrid sharding: FSDP, section 3.2.2; MiCS, Zhang et al., VLDB 2022).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "training/buckets.hpp"
#include "training/flat_layout.hpp"
#include "training/mesh.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::training {

enum class Strategy : std::uint8_t { kDdp, kZero1, kZero2, kZero3 };

/// Between the forward and the backward pass, where parameters are in shards.
enum class AfterForward : std::uint8_t {
  kShard,      ///< given up; gathered again from all shards
  kKeep,       ///< kept whole: one gather less, all parameters in memory
  kSecondary,  ///< kept in shards of `secondary_ranks` neighbours, which are gathered from them
               ///< alone (hpZ: ZeRO++, Wang et al., ICLR 2024, section 3.2)
};

struct PlanOptions {
  Strategy strategy = Strategy::kDdp;
  int shard_ranks = 0;  ///< ranks that share one set of shards; 0: all. Not for kDdp
  AfterForward after_forward = AfterForward::kShard;
  int secondary_ranks = 0;  ///< for kSecondary
  /// Units are gathered before they are used, at most so many bytes of them; 0: none. Without: the
  /// one that is used next.
  std::optional<std::size_t> prefetch_bytes = {};
  BucketLimits buckets = {};  ///< not for kZero3, whose units travel as they are
  /// Of parameters and gradients in the model: float32, bfloat16 or float16. Those that are
  /// stepped, and the optimizer's state, are float32.
  DataType compute = DataType::kFloat32;
  /// In which gradients are added up: between ranks, and where they are whole over the passes.
  DataType reduce = DataType::kFloat32;
  /// Float32 numbers of state that the optimizer keeps for each parameter; see moments_of().
  int moments = 2;
  /// Backward passes of a step. Where gradients are whole, only those of the last are sent; where
  /// they are in shards, those of each.
  int passes = 1;
  /// Keeps gradients whole in kZero2 and kZero3, so that they are sent once a step.
  bool whole_gradients = false;
  /// Sums are those of one binary tree over all passes of all ranks: pass p of rank r is its leaf
  /// p x ranks + r. The same bits for every strategy and every power of two of ranks, as long as
  /// passes x ranks is the same. Gradients of each pass are sent. See PassSums.
  bool deterministic = false;
  friend bool operator==(const PlanOptions&, const PlanOptions&) = default;
};

/// Bytes of one rank. Value.
struct MemoryPlan {
  std::size_t parameters = 0;  ///< as the model computes with them: whole, or this rank's shards
  std::size_t gradients = 0;   ///< whole, or the sums of this rank's shards
  std::size_t masters = 0;     ///< float32 of what is stepped, where `parameters` are not
  std::size_t moments = 0;     ///< the optimizer's
  std::size_t windows = 0;     ///< units that are whole for a while, and secondary shards
  [[nodiscard]] std::size_t all() const {
    return parameters + gradients + masters + moments + windows;
  }
  friend bool operator==(const MemoryPlan&, const MemoryPlan&) = default;
};

/// Payload that one rank sends in one step, in bytes: with f(n) = (n - 1) / n of the ranks that
/// take part, f for a gather or a scattered sum of P bytes, 2 f for a sum that all get. Value.
struct TrafficPlan {
  std::uint64_t gathers = 0;     ///< of parameters
  std::uint64_t reductions = 0;  ///< of gradients, among those who shard
  std::uint64_t replicas = 0;    ///< of gradients, among replicas
  std::uint64_t padding = 0;     ///< of all these, what is no parameter's
  [[nodiscard]] std::uint64_t all() const { return gathers + reductions + replicas; }
  friend bool operator==(const TrafficPlan&, const TrafficPlan&) = default;
};

/// Checked and immutable.
class Plan {
 public:
  /// Parameters that are gathered together.
  struct Unit {
    Group group;
    bool keeps_whole = false;  ///< not given up between its uses in a step
  };
  /// `units`: in the order of their first use. `order`: in which gradients get ready, where that is
  /// known; not for kZero3. kInvalidArgument names the option that is wrong, and what would fit.
  static Result<Plan> create(const ParameterTable& table, std::vector<Unit> units, int ranks,
                             const PlanOptions& options, std::vector<ParameterId> order = {});

  [[nodiscard]] const PlanOptions& options() const { return options_; }
  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  /// Groups are the units for kZero3, else buckets.
  [[nodiscard]] const std::shared_ptr<const FlatLayout>& layout() const { return layout_; }
  [[nodiscard]] bool parameters_are_whole() const { return options_.strategy != Strategy::kZero3; }
  [[nodiscard]] bool gradients_are_whole() const;
  /// Whether a unit stays whole from its first use in a pass to its last one, in memory of its own;
  /// and whether it does so over all passes of a step.
  [[nodiscard]] bool keeps_whole(GroupId unit) const;
  [[nodiscard]] bool keeps_whole_for_step(GroupId unit) const;
  /// Windows for units that are not kept, each as long as the largest of them.
  [[nodiscard]] int parameter_windows() const { return parameter_windows_; }
  [[nodiscard]] int gradient_windows() const { return gradient_windows_; }
  /// Elements of such a window.
  [[nodiscard]] std::size_t window_elements() const;
  /// Whether sums of gradients have memory of their own, in float32, apart from where they are sent
  /// from; and how many copies of it: deterministic sums need one for each level of their tree.
  [[nodiscard]] bool keeps_sums() const;
  [[nodiscard]] int sum_levels() const;
  /// Whether replicas add up the sums of a step's passes at its end, and not those of each pass.
  [[nodiscard]] bool replicas_add_last() const;
  /// Whether gradients of a pass are sent that is not the last.
  [[nodiscard]] bool sends_every_pass() const {
    return !gradients_are_whole() || options_.deterministic;
  }
  [[nodiscard]] MemoryPlan memory() const;
  /// Of a step in which every unit is used once forward and once backward.
  [[nodiscard]] TrafficPlan traffic() const;
  /// Equal plans have equal hashes, on every machine.
  [[nodiscard]] std::uint64_t hash() const;

 private:
  Plan(const PlanOptions& options, const Mesh& mesh) : options_(options), mesh_(mesh) {}
  void count_windows();
  [[nodiscard]] TrafficPlan traffic_of(GroupId group, std::size_t elements) const;

  PlanOptions options_;
  Mesh mesh_;
  std::shared_ptr<const FlatLayout> layout_;
  std::vector<bool> keeps_whole_, is_kept_for_step_;  ///< by unit; for kZero3
  int parameter_windows_ = 0, gradient_windows_ = 0;
};

}  // namespace tutti::training
