// Data-parallel training of parameters that every rank holds: each computes gradients of its own
// samples, and all take the same step.
//
//   kDdp     every rank has all sums of gradients and steps all parameters (Li et al., VLDB 2020)
//   kZero1   each steps a shard: gradients are reduce-scattered, stepped parameters all-gathered,
//            as many bytes as an all-reduce, and optimizer state is divided among ranks
//            (ZeRO stage 1, Rajbhandari et al., SC 2020)
//
// Both give the same bits, for any buckets: inside a host gradients are added in the order of
// ranks, steps are element by element, and the norm does not depend on order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "training/buckets.hpp"
#include "training/gradient_reducer.hpp"
#include "training/sharded_adamw.hpp"
#include "tutti/communicator.hpp"
#include "tutti/error.hpp"

namespace tutti::training {

enum class Strategy : std::uint8_t { kDdp, kZero1 };

struct DataParallelOptions {
  Strategy strategy = Strategy::kDdp;
  BucketLimits buckets = {};
  AdamW optimizer = {};
  std::optional<double> clip_norm = {};  ///< gradients are scaled down to this norm at most
};

/// What a step did. Value.
struct StepOutcome {
  double norm = 0;       ///< of the gradients, before they were clipped
  bool skipped = false;  ///< a gradient was infinite or no number: nothing changed
  friend bool operator==(const StepOutcome&, const StepOutcome&) = default;
};

/// One rank's. One thread at a time; nobody else uses `comm` meanwhile. Resource.
class DataParallel {
 public:
  /// Collective. `comm` outlives it. kPeerFailed: another rank has other parameters, options or
  /// buckets; names the rank.
  static Result<std::unique_ptr<DataParallel>> create(const ParameterTable& table, Comm& comm,
                                                      const DataParallelOptions& options);

  /// Where a parameter lies; it changes in step() alone, but for whoever fills it before
  /// broadcast().
  [[nodiscard]] std::span<float> parameter(ParameterId id) const;
  /// Rank 0's parameters become everybody's. Collective.
  Status broadcast();

  /// Where this rank adds up its gradient of a parameter; zero at first and after step().
  [[nodiscard]] std::span<float> gradient(ParameterId id) const { return reducer_.gradient(id); }
  /// Before the last backward pass of a step, whose gradients are reduced as they get ready().
  Status begin_backward();
  Status ready(ParameterId id) { return reducer_.ready(id); }
  /// See GradientReducer::finish().
  Status end_backward();
  /// Takes a step by the sums of gradients times `gradient_scale`, which is 1 / samples of all
  /// ranks where each gradient is a sum over samples; the same on all ranks, above 0. Collective.
  /// kInvalidUsage: the gradients are not reduced.
  Result<StepOutcome> step(double gradient_scale);

  [[nodiscard]] const FlatLayout& layout() const { return reducer_.layout(); }
  [[nodiscard]] ShardedAdamW& optimizer() { return optimizer_; }

 private:
  DataParallel(Comm& comm, const DataParallelOptions& options, GradientReducer reducer,
               std::vector<Slab> parameters);
  Result<double> gradient_norm();
  [[nodiscard]] std::span<float> own_part(GroupId group) const;

  Comm& comm_;
  const DataParallelOptions options_;
  GradientReducer reducer_;
  std::vector<Slab> parameters_;  ///< by group
  ShardedAdamW optimizer_;
  bool is_reduced_ = false;  ///< since end_backward(), until step()
};

}  // namespace tutti::training
