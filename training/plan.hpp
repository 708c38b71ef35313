// Which rank keeps what of a model that ranks train together, and what that costs. A value, made
// before anything is allocated or sent.
//
//   kDdp     parameters, gradients and optimizer state are whole on every rank
//            (Li et al., PyTorch Distributed, VLDB 2020)
//   kZero1   optimizer state is sharded (ZeRO, Rajbhandari et al., SC 2020, section 5)
//   kZero2   gradients, too
//   kZero3   parameters, too (FSDP, Zhao et al., VLDB 2023)
//
// `shard_ranks` neighbours share one set of shards. If these are fewer than all ranks, groups of
// such neighbours are replicas of each other (hybrid sharding: FSDP, section 3.2.2; MiCS, Zhang et
// al., VLDB 2022).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "training/buckets.hpp"
#include "training/compression.hpp"
#include "training/flat_layout.hpp"
#include "training/mesh.hpp"
#include "training/power_sgd.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::training {

enum class Strategy : std::uint8_t { kDdp, kZero1, kZero2, kZero3 };

/// What happens to sharded parameters between the forward and the backward pass.
enum class AfterForward : std::uint8_t {
  kShard,      ///< released; gathered again from all shards
  kKeep,       ///< kept whole: one gather less, but all parameters in memory
  kSecondary,  ///< kept in shards among `secondary_ranks` neighbours, and gathered from these only
               ///< (hpZ: ZeRO++, Wang et al., ICLR 2024, section 3.2)
};

struct PlanOptions {
  Strategy strategy = Strategy::kDdp;
  int shard_ranks = 0;  ///< ranks that share one set of shards; 0: all. Not for kDdp
  AfterForward after_forward = AfterForward::kShard;
  int secondary_ranks = 0;  ///< for kSecondary
  /// Most bytes of units gathered before their use; 0: none. Empty: the unit that is used next.
  std::optional<std::size_t> prefetch_bytes = {};
  BucketLimits buckets = {};  ///< not for kZero3, which sends whole units
  /// Type of parameters and gradients in the model: float32, bfloat16 or float16. Master parameters
  /// and the optimizer's state are float32.
  DataType compute = DataType::kFloat32;
  /// Type in which gradients are added: between ranks and, if they are whole, over passes.
  DataType reduce = DataType::kFloat32;
  /// Float32 values of optimizer state per parameter; see moments_of().
  int moments = 2;
  /// Backward passes per step. Whole gradients are sent in the last pass only; sharded gradients in
  /// each pass.
  int passes = 1;
  /// Keeps gradients whole in kZero2 and kZero3, so they are sent once per step.
  bool whole_gradients = false;
  /// Adds along one binary tree over all passes of all ranks: pass p of rank r is leaf p x ranks +
  /// r. So the bits are the same for every strategy and every power of two of ranks, if passes x
  /// ranks is the same. Gradients of each pass are sent. See PassSums.
  bool deterministic = false;
  /// The format in which parameters are gathered from all shards, as tuttiCompressionCreate() takes
  /// it; empty: as they are. Every rank computes with what the format made of them, their owner
  /// too. Masters stay exact. Not for kDdp, which gathers none.
  std::string weights = {};
  /// Of gradients: between replicas if there are any, else among ranks that share shards. Methods
  /// other than kFormat, and momentum, are for kDdp.
  GradientCompression gradients = {};
  friend bool operator==(const PlanOptions&, const PlanOptions&) = default;
};

/// Bytes on one rank. Value.
struct MemoryPlan {
  std::size_t parameters = 0;  ///< as used in computation: whole, or this rank's shards
  std::size_t gradients = 0;   ///< whole, or the sums of this rank's shards
  std::size_t masters = 0;     ///< float32 copies that are stepped, if Plan::keeps_masters()
  std::size_t moments = 0;     ///< optimizer state
  std::size_t windows = 0;     ///< units that are whole temporarily, and secondary shards
  std::size_t owed = 0;        ///< what compression has left over, and what it keeps beside that
  [[nodiscard]] std::size_t all() const {
    return parameters + gradients + masters + moments + windows + owed;
  }
  friend bool operator==(const MemoryPlan&, const MemoryPlan&) = default;
};

/// Payload that one rank sends in one step, in bytes. With n participating ranks, f = (n - 1) / n.
/// A gather or a scattered sum of P bytes sends f P, a sum for all ranks 2 f P. Value.
struct TrafficPlan {
  std::uint64_t gathers = 0;      ///< of parameters
  std::uint64_t reductions = 0;   ///< of gradients, among ranks that share shards
  std::uint64_t replicas = 0;     ///< of gradients, among replicas
  std::uint64_t padding = 0;      ///< part of these that is padding
  std::uint64_t shared = 0;       ///< part of these that formats keep beside values, such as scales
  std::uint64_t other_hosts = 0;  ///< part of these that goes to ranks of other hosts
  std::uint64_t other_hosts_sums = 0;  ///< of that, what is of gradients
  [[nodiscard]] std::uint64_t all() const { return gathers + reductions + replicas; }
  friend bool operator==(const TrafficPlan&, const TrafficPlan&) = default;
};

/// What travels of a group by PowerSGD, with padding that gives all ranks equal parts. Value.
struct PowerSgdTravel {
  PowerSgdShape shape;
  std::size_t first = 0, next = 0;  ///< elements of the two sums
};

/// Checked and immutable.
class Plan {
 public:
  /// Parameters that are gathered together.
  struct Unit {
    Group group;
    bool keeps_whole = false;  ///< not released between its uses in a step
  };
  /// `units`: in the order of first use. `order`: the order in which gradients become ready, if
  /// known; not for kZero3. kInvalidArgument names the wrong option and valid values.
  static Result<Plan> create(const ParameterTable& table, std::vector<Unit> units, int ranks,
                             const PlanOptions& options, std::vector<ParameterId> order = {});

  [[nodiscard]] const PlanOptions& options() const { return options_; }
  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  /// Groups are the units for kZero3, else buckets.
  [[nodiscard]] const std::shared_ptr<const FlatLayout>& layout() const { return layout_; }
  [[nodiscard]] bool parameters_are_whole() const { return options_.strategy != Strategy::kZero3; }
  [[nodiscard]] bool gradients_are_whole() const;
  /// Whether a unit stays whole, in memory of its own, from its first to its last use in a pass;
  /// and whether it does so over all passes of a step.
  [[nodiscard]] bool keeps_whole(GroupId unit) const;
  [[nodiscard]] bool keeps_whole_for_step(GroupId unit) const;
  /// Number of windows for units that are not kept. Each is as long as the largest such unit.
  [[nodiscard]] int parameter_windows() const { return parameter_windows_; }
  [[nodiscard]] int gradient_windows() const { return gradient_windows_; }
  /// Elements of such a window.
  [[nodiscard]] std::size_t window_elements() const;
  /// Whether sums of gradients have float32 memory of their own, apart from the send buffers; and
  /// how many copies of it. Deterministic sums need one per level of their tree.
  [[nodiscard]] bool keeps_sums() const;
  [[nodiscard]] int sum_levels() const;
  /// Whether replicas add the sums of all passes at the end of a step, instead of after each pass.
  [[nodiscard]] bool replicas_add_last() const;
  /// Whether gradients are also sent in passes other than the last.
  [[nodiscard]] bool sends_every_pass() const {
    return !gradients_are_whole() || options_.deterministic;
  }
  /// Whether what is stepped has float32 memory of its own, apart from what the model computes
  /// with.
  [[nodiscard]] bool keeps_masters() const;
  /// Whether gradients are compressed in sums for replicas, and not in scattered sums.
  [[nodiscard]] bool compresses_replicas() const { return mesh_.replicas() > 1; }
  /// Elements of a group that a sum for replicas covers: with its padding, unless the format would
  /// make numbers out of that.
  [[nodiscard]] std::size_t summed_elements(GroupId group) const;
  /// How gathered parameters, and gradients, travel; the latter unless it is by PowerSGD.
  [[nodiscard]] const WireSize& weights() const { return weights_; }
  [[nodiscard]] const WireSize& gradients() const { return gradients_; }
  /// For kPowerSgd.
  [[nodiscard]] PowerSgdTravel power_sgd(GroupId group) const;
  /// The same plan without any compression.
  [[nodiscard]] Plan uncompressed() const;
  [[nodiscard]] MemoryPlan memory() const;
  /// For a step that uses every unit once forward and once backward, after the steps in which
  /// nothing is compressed. The ranks are spread over `hosts` in equal blocks; with several, only
  /// what goes to other hosts is compressed. `hosts` must divide the number of ranks.
  [[nodiscard]] TrafficPlan traffic(int hosts = 1) const;
  /// The same for one group; its `padding` is 0.
  [[nodiscard]] TrafficPlan traffic_of(GroupId group, int hosts = 1) const {
    return traffic_of(group, true, hosts);
  }
  /// Equal plans have equal hashes, on every machine.
  [[nodiscard]] std::uint64_t hash() const;

 private:
  Plan(const PlanOptions& options, const Mesh& mesh) : options_(options), mesh_(mesh) {}
  void count_windows();
  Status choose_sizes();
  [[nodiscard]] Status check_compressed_parts() const;
  [[nodiscard]] std::size_t owed_bytes() const;
  [[nodiscard]] TrafficPlan traffic_of(GroupId group, bool with_padding, int hosts) const;

  PlanOptions options_;
  Mesh mesh_;
  std::shared_ptr<const FlatLayout> layout_;
  std::vector<bool> keeps_whole_, is_kept_for_step_;  ///< by unit; for kZero3
  int parameter_windows_ = 0, gradient_windows_ = 0;
  WireSize weights_, gradients_;
};

}  // namespace tutti::training
