#include "training/plan.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "training/hash.hpp"
#include "training/numbers.hpp"
#include "training/outcome.hpp"

namespace tutti::training {
namespace {

Status check_strategy(const PlanOptions& options, int ranks) {
  const bool is_sharded = options.strategy != Strategy::kDdp;
  if (!is_sharded && options.shard_ranks > 1)
    return failure(Code::kInvalidArgument,
                   "DDP has no shards, and {} ranks are to share them: choose a ZeRO strategy",
                   options.shard_ranks);
  if (options.strategy != Strategy::kZero3 && options.after_forward != AfterForward::kShard)
    return failure(Code::kInvalidArgument,
                   "only ZeRO-3 gives parameters up after the forward pass: choose it, or leave "
                   "out what to keep");
  const bool scatters = options.strategy >= Strategy::kZero2;
  if (options.whole_gradients && !scatters)
    return failure(Code::kInvalidArgument,
                   "gradients are whole in DDP and ZeRO-1 in any case: leave out to keep them");
  if (options.deterministic && !std::has_single_bit(static_cast<unsigned>(ranks)))
    return failure(Code::kInvalidArgument,
                   "deterministic sums need 1, 2, 4, 8 ... ranks, not {}: give {}", ranks,
                   std::bit_floor(static_cast<unsigned>(ranks)));
  return ok_status();
}

Status check_types(const PlanOptions& options) {
  if (!is_model_type(options.compute) || !is_model_type(options.reduce))
    return failure(Code::kInvalidArgument,
                   "models compute, and gradients are added up, in float32, bfloat16 or float16");
  if (options.deterministic && options.reduce != DataType::kFloat32)
    return failure(Code::kInvalidArgument,
                   "deterministic sums are float32: gradients have to be added up in it");
  if (options.passes < 1)
    return failure(Code::kInvalidArgument, "a step of {} passes: it has at least one",
                   options.passes);
  return ok_status();
}

/// Neighbours that share secondary shards are a part of those that share the first ones.
Status check_secondary(const PlanOptions& options, int shards) {
  if (options.after_forward != AfterForward::kSecondary) {
    if (options.secondary_ranks == 0) return ok_status();
    return failure(Code::kInvalidArgument, "{} ranks for secondary shards, which are not asked for",
                   options.secondary_ranks);
  }
  if (options.secondary_ranks < 2 || options.secondary_ranks >= shards ||
      shards % options.secondary_ranks != 0)
    return failure(
        Code::kInvalidArgument,
        "secondary shards over {} of {} ranks: give a divisor of {} above 1 and below it",
        options.secondary_ranks, shards, shards);
  return ok_status();
}

/// What `n` ranks send each of a gather, or of a scattered sum, of so many bytes.
std::uint64_t share(std::uint64_t bytes, int n) {
  const auto ranks = static_cast<std::uint64_t>(n);
  return bytes * (ranks - 1) / ranks;
}

}  // namespace

Result<Plan> Plan::create(const ParameterTable& table, std::vector<Unit> units, int ranks,
                          const PlanOptions& options, std::vector<ParameterId> order) {
  TRAINING_TRY(check_types(options));
  TRAINING_TRY(check_strategy(options, ranks));
  const int all = options.strategy == Strategy::kDdp ? 1 : ranks;
  TRAINING_ASSIGN(const Mesh mesh,
                  Mesh::create(ranks, options.shard_ranks == 0 ? all : options.shard_ranks));
  TRAINING_TRY(check_secondary(options, mesh.shards()));
  Plan plan(options, mesh);
  std::vector<Group> groups;
  if (plan.parameters_are_whole()) {
    if (order.empty()) order = reverse_order(table);
    TRAINING_ASSIGN(groups, cut_buckets(table, order, options.buckets));
  } else {
    for (Unit& unit : units) {
      groups.push_back(std::move(unit.group));
      plan.keeps_whole_.push_back(unit.keeps_whole || options.after_forward == AfterForward::kKeep);
    }
  }
  TRAINING_ASSIGN(FlatLayout layout,
                  FlatLayout::create(table, std::move(groups), mesh.shards(), mesh.replicas()));
  plan.layout_ = std::make_shared<const FlatLayout>(std::move(layout));
  plan.is_kept_for_step_.assign(units.size(), false);
  for (std::size_t unit = 0; unit < units.size(); ++unit)
    plan.is_kept_for_step_[unit] = units[unit].keeps_whole;
  plan.count_windows();
  return plan;
}

void Plan::count_windows() {
  const std::size_t groups = layout_->groups().size();
  // One that is filled and one that is sent; and what a kept unit fills all through the pass.
  const auto kept = static_cast<std::size_t>(std::ranges::count(is_kept_for_step_, true));
  if (!gradients_are_whole())
    gradient_windows_ =
        static_cast<int>(std::min<std::size_t>(groups, 2 + (parameters_are_whole() ? 0 : kept)));
  if (parameters_are_whole()) return;
  const auto shared = static_cast<std::size_t>(std::ranges::count(keeps_whole_, false));
  if (shared == 0) return;
  const std::size_t largest = window_elements() * bytes_of(options_.compute);
  const std::size_t ahead = options_.prefetch_bytes ? *options_.prefetch_bytes / largest : 1;
  parameter_windows_ = 1 + static_cast<int>(std::min(ahead, shared - 1));
}

bool Plan::gradients_are_whole() const {
  return options_.strategy <= Strategy::kZero1 || options_.whole_gradients;
}

bool Plan::keeps_whole(GroupId unit) const { return parameters_are_whole() || keeps_whole_[unit]; }

bool Plan::keeps_whole_for_step(GroupId unit) const {
  return parameters_are_whole() || is_kept_for_step_[unit];
}

std::size_t Plan::window_elements() const {
  std::size_t most = 0;
  for (GroupId unit = 0; unit < layout_->groups().size(); ++unit)
    if (!keeps_whole(unit)) most = std::max(most, layout_->padded(unit));
  return most;
}

bool Plan::keeps_sums() const {
  return sends_every_pass() || options_.reduce != DataType::kFloat32;
}

int Plan::sum_levels() const {
  if (!keeps_sums()) return 0;
  if (!options_.deterministic) return 1;
  return static_cast<int>(std::bit_width(static_cast<unsigned>(options_.passes)));
}

bool Plan::replicas_add_last() const {
  return mesh_.shards() > 1 && mesh_.replicas() > 1 && !gradients_are_whole() &&
         !options_.deterministic;
}

MemoryPlan Plan::memory() const {
  const std::size_t number = bytes_of(options_.compute), sent = bytes_of(options_.reduce);
  const std::size_t whole = layout_->all_padded(), own = layout_->all_of_a_shard();
  MemoryPlan plan;
  plan.parameters = (parameters_are_whole() ? whole : own) * number;
  plan.gradients = (gradients_are_whole() ? whole * sent : 0) +
                   static_cast<std::size_t>(sum_levels()) * own * sizeof(float);
  plan.masters = options_.compute == DataType::kFloat32 ? 0 : own * sizeof(float);
  plan.moments = static_cast<std::size_t>(options_.moments) * own * sizeof(float);
  plan.windows = static_cast<std::size_t>(parameter_windows_) * window_elements() * number +
                 static_cast<std::size_t>(gradient_windows_) * layout_->largest() * sent;
  if (parameters_are_whole()) return plan;
  for (GroupId unit = 0; unit < layout_->groups().size(); ++unit) {
    if (keeps_whole(unit))
      plan.windows += layout_->padded(unit) * number;
    else if (options_.secondary_ranks > 0)
      plan.windows +=
          layout_->padded(unit) / static_cast<std::size_t>(options_.secondary_ranks) * number;
  }
  return plan;
}

/// Of a group, if its buffer had so many elements.
TrafficPlan Plan::traffic_of(GroupId group, std::size_t elements) const {
  const std::uint64_t numbers = elements * bytes_of(options_.compute),
                      sent = elements * bytes_of(options_.reduce);
  const auto passes = static_cast<std::uint64_t>(options_.passes);
  const auto sends = sends_every_pass() ? passes : 1;
  const int shards = mesh_.shards(), replicas = mesh_.replicas();
  TrafficPlan plan;
  if (parameters_are_whole() || keeps_whole_for_step(group)) {
    plan.gathers = share(numbers, shards);
  } else if (options_.after_forward == AfterForward::kKeep) {
    plan.gathers = passes * share(numbers, shards);
  } else if (options_.after_forward == AfterForward::kSecondary) {
    plan.gathers =
        share(numbers, shards) + (2 * passes - 1) * share(numbers, options_.secondary_ranks);
  } else {
    plan.gathers = 2 * passes * share(numbers, shards);
  }
  plan.reductions = sends * share(sent, shards);
  const auto part = static_cast<std::uint64_t>(shards);
  plan.replicas = replicas_add_last() ? 2 * share(elements * sizeof(float) / part, replicas)
                                      : sends * 2 * share(sent / part, replicas);
  return plan;
}

TrafficPlan Plan::traffic() const {
  TrafficPlan all, useful;
  const auto add = [](TrafficPlan& sum, const TrafficPlan& part) {
    sum.gathers += part.gathers;
    sum.reductions += part.reductions;
    sum.replicas += part.replicas;
  };
  for (GroupId group = 0; group < layout_->groups().size(); ++group) {
    add(all, traffic_of(group, layout_->padded(group)));
    add(useful, traffic_of(group, layout_->elements(group)));
  }
  all.padding = all.all() - useful.all();
  return all;
}

std::uint64_t Plan::hash() const {
  Hash hash;
  hash.add(layout_->hash()).add(static_cast<std::uint64_t>(mesh_.world()));
  const PlanOptions& o = options_;
  for (const std::uint64_t number :
       {static_cast<std::uint64_t>(o.strategy), static_cast<std::uint64_t>(o.after_forward),
        static_cast<std::uint64_t>(o.secondary_ranks), static_cast<std::uint64_t>(o.compute),
        static_cast<std::uint64_t>(o.reduce), static_cast<std::uint64_t>(o.passes),
        static_cast<std::uint64_t>(o.moments), static_cast<std::uint64_t>(o.whole_gradients),
        static_cast<std::uint64_t>(o.deterministic),
        static_cast<std::uint64_t>(parameter_windows_)})
    hash.add(number);
  for (const bool kept : keeps_whole_) hash.add(kept ? 1 : 0);
  for (const bool kept : is_kept_for_step_) hash.add(kept ? 1 : 0);
  return hash.value();
}

}  // namespace tutti::training
