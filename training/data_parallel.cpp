#include "training/data_parallel.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include "training/gradient_norm.hpp"
#include "training/hash.hpp"
#include "training/outcome.hpp"

namespace tutti::training {
namespace {

/// Of all that ranks have to share.
std::uint64_t hash_of(const FlatLayout& layout, const DataParallelOptions& options) {
  Hash hash;
  hash.add(layout.hash()).add(static_cast<std::uint64_t>(options.strategy));
  const AdamW& optimizer = options.optimizer;
  for (const double number :
       {optimizer.learning_rate, optimizer.beta1, optimizer.beta2, optimizer.epsilon,
        optimizer.weight_decay, options.clip_norm.value_or(-1)})
    hash.add(std::bit_cast<std::uint64_t>(number));
  return hash.value();
}

Status compare(Comm& comm, std::uint64_t mine) {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(comm.size()));
  TRAINING_TRY(comm.all_gather<std::uint64_t>(std::span(&mine, 1), all));
  const auto other = std::ranges::find_if(all, [&](std::uint64_t hash) { return hash != all[0]; });
  if (other == all.end()) return ok_status();
  Error error = failure(Code::kPeerFailed,
                        "ranks 0 and {} train different models, or with different options: start "
                        "all ranks with the same program and the same options",
                        other - all.begin());
  error.peer = static_cast<Rank>(other - all.begin());
  return error;
}

}  // namespace

DataParallel::DataParallel(Comm& comm, const DataParallelOptions& options, GradientReducer reducer,
                           std::vector<Slab> parameters)
    : comm_(comm),
      options_(options),
      reducer_(std::move(reducer)),
      parameters_(std::move(parameters)),
      optimizer_(reducer_.shared_layout(), reducer_.shard(), options.optimizer) {}

Result<std::unique_ptr<DataParallel>> DataParallel::create(const ParameterTable& table, Comm& comm,
                                                           const DataParallelOptions& options) {
  if (options.clip_norm && !(*options.clip_norm > 0))
    return failure(Code::kInvalidArgument, "gradients are clipped to a norm above 0, not to {}",
                   *options.clip_norm);
  TRAINING_ASSIGN(std::vector<Group> buckets,
                  cut_buckets(table, reverse_order(table), options.buckets));
  const int shards = options.strategy == Strategy::kDdp ? 1 : comm.size();
  TRAINING_ASSIGN(FlatLayout made, FlatLayout::create(table, std::move(buckets), shards));
  const auto layout = std::make_shared<const FlatLayout>(std::move(made));
  TRAINING_TRY(compare(comm, hash_of(*layout, options)));
  TRAINING_ASSIGN(GradientReducer reducer, GradientReducer::create(layout, comm));
  std::vector<Slab> parameters;
  for (GroupId group = 0; group < layout->groups().size(); ++group) {
    TRAINING_ASSIGN(Slab slab, Slab::allocate(comm, layout->padded(group)));
    parameters.push_back(std::move(slab));
  }
  return std::unique_ptr<DataParallel>(
      new DataParallel(comm, options, std::move(reducer), std::move(parameters)));
}

std::span<float> DataParallel::parameter(ParameterId id) const {
  return parameters_[layout().group_of(id)].data().subspan(layout().offset_of(id),
                                                           layout().table().elements(id));
}

Status DataParallel::broadcast() {
  for (const Slab& group : parameters_) TRAINING_TRY(comm_.broadcast<float>(group.data(), 0));
  return ok_status();
}

std::span<float> DataParallel::own_part(GroupId group) const {
  const std::size_t elements = layout().shard_elements(group);
  return parameters_[group].data().subspan(static_cast<std::size_t>(reducer_.shard()) * elements,
                                           elements);
}

/// Of the sums over all ranks. Padding is zero.
Result<double> DataParallel::gradient_norm() {
  const std::size_t elements = layout().table().elements();
  const bool sharded = layout().shards() > 1;
  float largest = 0;
  for (GroupId group = 0; group < layout().groups().size(); ++group)
    largest = std::max(largest, magnitude(reducer_.reduced(group)));
  if (sharded) {
    const std::span<float> agreed(&largest, 1);
    TRAINING_TRY(comm_.all_reduce<float>(agreed, agreed, ReduceOp::kMax));
  }
  std::array<std::uint64_t, 2> sums = {};
  for (GroupId group = 0; group < layout().groups().size(); ++group) {
    const Squares own = squares(reducer_.reduced(group), largest, elements);
    sums[0] += own.high;
    sums[1] += own.low;
  }
  if (sharded) TRAINING_TRY(comm_.all_reduce<std::uint64_t>(sums, sums));
  return norm({sums[0], sums[1]}, largest, elements);
}

Status DataParallel::begin_backward() {
  if (is_reduced_)
    return failure(Code::kInvalidUsage,
                   "the gradients are reduced already: step() comes before the next backward pass");
  return reducer_.begin();
}

Status DataParallel::end_backward() {
  TRAINING_TRY(reducer_.finish());
  is_reduced_ = true;
  return ok_status();
}

Result<StepOutcome> DataParallel::step(double gradient_scale) {
  if (!std::isfinite(gradient_scale) || gradient_scale <= 0)
    return failure(Code::kInvalidArgument, "gradients are scaled by a number above 0, not by {}",
                   gradient_scale);
  if (!is_reduced_)
    return failure(
        Code::kInvalidUsage,
        "the gradients of this step are not reduced: end_backward() comes before step()");
  StepOutcome outcome;
  TRAINING_ASSIGN(const double norm_of_sums, gradient_norm());
  outcome.norm = norm_of_sums * gradient_scale;
  outcome.skipped = std::isnan(outcome.norm);
  if (!outcome.skipped) {
    const bool clips = options_.clip_norm && outcome.norm > *options_.clip_norm;
    const double factor = clips ? *options_.clip_norm / outcome.norm : 1;
    const auto scale = static_cast<float>(gradient_scale * factor);
    optimizer_.begin_step();
    for (GroupId group = 0; group < layout().groups().size(); ++group) {
      optimizer_.step(group, reducer_.reduced(group), own_part(group), scale);
      if (layout().shards() > 1)
        TRAINING_TRY(comm_.all_gather<float>(own_part(group), parameters_[group].data()));
    }
  }
  reducer_.clear();
  is_reduced_ = false;
  return outcome;
}

}  // namespace tutti::training
