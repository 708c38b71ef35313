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

/// Whether zeros do not stay zeros in a format.
bool changes_zeros(const std::string& format) {
  const std::string name = format.substr(0, format.find(':'));
  return name == "sign" || name == "int8a" || name == "int4a";
}

/// Whether a method has what it needs, and nothing else.
Status check_method(const GradientCompression& gradients) {
  using Method = GradientCompression::Method;
  const bool in_format =
      gradients.method == Method::kFormat || gradients.method == Method::kMomentum;
  if (in_format == gradients.format.empty())
    return failure(Code::kInvalidArgument,
                   "gradients in '{}': a format and a momentum need one, and nothing else has one",
                   gradients.format);
  if (gradients.format.find("errors=") != std::string::npos)
    return failure(Code::kInvalidArgument,
                   "gradients in '{}': GradientCompression::feedback says what happens to errors",
                   gradients.format);
  const bool is_thin = gradients.method == Method::kPowerSgd;
  if (is_thin ? gradients.rank < 1 || gradients.rank > kMostPowerSgdRank : gradients.rank != 0)
    return failure(Code::kInvalidArgument,
                   "a rank of {}: that of PowerSGD is from 1 to {}, and others have none",
                   gradients.rank, kMostPowerSgdRank);
  return ok_status();
}

/// What gathered parameters and compressed gradients are good for.
Status check_compression(const PlanOptions& options) {
  const GradientCompression& gradients = options.gradients;
  const bool is_ddp = options.strategy == Strategy::kDdp;
  if (options.deterministic && (!options.weights.empty() || gradients.is_on()))
    return failure(Code::kInvalidArgument,
                   "deterministic sums have the same bits for any number of ranks, and what "
                   "compression rounds off depends on how ranks cut the numbers: leave one out");
  if (is_ddp && !options.weights.empty())
    return failure(
        Code::kInvalidArgument,
        "weights in '{}': DDP gathers no parameters. Choose a ZeRO strategy, or compress "
        "gradients",
        options.weights);
  const std::string weights = options.weights.substr(0, options.weights.find(':'));
  if (weights == "topk" || weights == "sign")
    return failure(Code::kInvalidArgument,
                   "weights in '{}': parameters would become 0, or all alike. Choose a format of "
                   "numbers, such as int8",
                   options.weights);
  if (options.weights.find("errors=feedback") != std::string::npos)
    return failure(Code::kInvalidArgument,
                   "weights in '{}': they are gathered anew from exact masters, and owe nothing. "
                   "Leave errors=feedback out",
                   options.weights);
  TRAINING_TRY(check_method(gradients));
  if (!gradients.is_on()) return ok_status();
  using Method = GradientCompression::Method;
  if (!is_ddp && gradients.method != Method::kFormat)
    return failure(Code::kInvalidArgument,
                   "PowerSGD, 1-bit Adam and Top-K by momentum need whole gradients and optimizer "
                   "state: choose DDP");
  if ((gradients.owes() || gradients.method == Method::kMomentum) &&
      options.reduce != DataType::kFloat32)
    return failure(Code::kInvalidArgument,
                   "what gradients owe is float32: they have to be added up in it");
  if (!(gradients.momentum >= 0 && gradients.momentum < 1))
    return failure(Code::kInvalidArgument, "a momentum of {}: it is at least 0 and less than 1",
                   gradients.momentum);
  if (gradients.warmup_steps < 0)
    return failure(Code::kInvalidArgument, "{} steps before gradients are compressed",
                   gradients.warmup_steps);
  if (gradients.method == Method::kMomentum && (options.moments != 2 || gradients.warmup_steps < 1))
    return failure(
        Code::kInvalidArgument,
        "gradients by momentum need AdamW, and at least 1 warm-up step, in which it learns "
        "the variance");
  // Padding would be counted as gradients.
  if (!is_ddp && changes_zeros(gradients.format))
    return failure(Code::kInvalidArgument,
                   "gradients in '{}': it keeps no zeros, which shards end with. Choose another "
                   "format, or DDP",
                   gradients.format);
  return ok_status();
}

/// How ranks of a communicator lie on hosts.
struct Spread {
  int hosts = 1, on_each = 1;
};

/// What a rank sends in one collective. Value.
struct Sent {
  std::uint64_t bytes = 0, shared = 0, other_hosts = 0;
  Sent& add(const Sent& more, std::uint64_t times) {
    bytes += times * more.bytes;
    shared += times * more.shared;
    other_hosts += times * more.other_hosts;
    return *this;
  }
};

/// Of a gather, or of a scattered sum, of so many elements in all. With several hosts a part
/// crosses once for each other host, as a copy or as the sum of a host.
Sent sent_of_parts(const WireSize& size, std::size_t elements, Spread spread) {
  const auto hosts = static_cast<std::uint64_t>(spread.hosts),
             on_each = static_cast<std::uint64_t>(spread.on_each), ranks = hosts * on_each;
  if (ranks == 1) return {};
  if (size.is_plain())
    return {size.plain(elements) * (ranks - 1) / ranks, 0,
            size.plain(elements) * (hosts - 1) / ranks};
  const std::size_t part = (elements + ranks - 1) / ranks;
  const std::uint64_t small = size.bytes(part), shared = size.shared(part);
  if (hosts == 1) return {(ranks - 1) * small, (ranks - 1) * shared, 0};
  return {hosts * (on_each - 1) * size.plain(part) + (hosts - 1) * small, (hosts - 1) * shared,
          (hosts - 1) * small};
}

/// Of a sum for all ranks: scattered, and gathered. Two ranks exchange all that they have.
Sent sent_of_all(const WireSize& size, std::size_t elements, Spread spread) {
  if (!size.is_plain() && spread.hosts * spread.on_each == 2) {
    const std::uint64_t bytes = size.bytes(elements);
    return {bytes, size.shared(elements), spread.hosts == 2 ? bytes : 0};
  }
  return Sent().add(sent_of_parts(size, elements, spread), 2);
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
  TRAINING_TRY(check_compression(options));
  Plan plan(options, mesh);
  TRAINING_TRY(plan.choose_sizes());
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
  TRAINING_TRY(plan.check_compressed_parts());
  return plan;
}

Status Plan::choose_sizes() {
  TRAINING_ASSIGN(weights_, WireSize::create(options_.weights, options_.compute));
  const DataType type = replicas_add_last() ? DataType::kFloat32 : options_.reduce;
  TRAINING_ASSIGN(gradients_, WireSize::create(options_.gradients.format, type));
  return ok_status();
}

/// Whether there is something to compress in what is sent.
Status Plan::check_compressed_parts() const {
  if (options_.gradients.method == GradientCompression::Method::kPowerSgd) {
    for (GroupId group = 0; group < layout_->groups().size(); ++group)
      if (!power_sgd(group).shape.matrices.empty()) return ok_status();
    return failure(Code::kInvalidArgument,
                   "PowerSGD of rank {}: no parameter is a matrix that thin ones would make "
                   "smaller. Lower the rank, or choose another compression",
                   options_.gradients.rank);
  }
  for (const WireSize* size : {&weights_, &gradients_}) {
    const bool is_sharded = mesh_.shards() > 1 && (size == &weights_ || !compresses_replicas());
    if (size->is_plain() || !is_sharded) continue;
    for (GroupId group = 0; group < layout_->groups().size(); ++group)
      if (layout_->shard_elements(group) < size->block())
        return failure(Code::kInvalidArgument,
                       "'{}' over {} ranks: a shard has {} elements, less than a block of {} of "
                       "'{}'. Choose smaller blocks, or larger units or buckets",
                       layout_->groups()[group].name, mesh_.shards(),
                       layout_->shard_elements(group), size->block(), size->text());
  }
  return ok_status();
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

bool Plan::keeps_masters() const {
  return options_.compute != DataType::kFloat32 ||
         (parameters_are_whole() && mesh_.shards() > 1 && !weights_.is_plain());
}

/// What is owed, that as it was before the step, and what methods keep beside it.
std::size_t Plan::owed_bytes() const {
  const GradientCompression& how = options_.gradients;
  const bool sends = mesh_.replicas() > 1 || mesh_.shards() > 1;
  if (!sends) return 0;
  std::size_t floats = 0;
  for (GroupId group = 0; group < layout_->groups().size(); ++group) {
    if (how.method == GradientCompression::Method::kPowerSgd) {
      const PowerSgdTravel travel = power_sgd(group);
      floats += 2 * travel.shape.elements + travel.shape.first + 2 * travel.shape.next +
                travel.first + travel.next;
      continue;
    }
    const std::size_t elements =
        compresses_replicas() ? summed_elements(group) : layout_->padded(group);
    floats += ((how.owes() ? 2 : 0) + (how.has_own_momentum() ? 2 : 0)) * elements;
  }
  return floats * sizeof(float);
}

MemoryPlan Plan::memory() const {
  const std::size_t number = bytes_of(options_.compute), sent = bytes_of(options_.reduce);
  const std::size_t whole = layout_->all_padded(), own = layout_->all_of_a_shard();
  MemoryPlan plan;
  plan.parameters = (parameters_are_whole() ? whole : own) * number;
  plan.gradients = (gradients_are_whole() ? whole * sent : 0) +
                   static_cast<std::size_t>(sum_levels()) * own * sizeof(float);
  plan.masters = keeps_masters() ? own * sizeof(float) : 0;
  plan.owed = owed_bytes();
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

/// Of a group: of its buffer, or of its elements alone.
TrafficPlan Plan::traffic_of(GroupId group, bool with_padding, int hosts) const {
  const auto elements = with_padding ? layout_->padded(group) : layout_->elements(group);
  const auto passes = static_cast<std::uint64_t>(options_.passes);
  const auto sends = sends_every_pass() ? passes : 1;
  const int shards = mesh_.shards(), replicas = mesh_.replicas();
  const int on_a_host = mesh_.world() / hosts;
  const auto neighbours = [&](int ranks) -> Spread {
    return ranks <= on_a_host ? Spread{1, ranks} : Spread{ranks / on_a_host, on_a_host};
  };
  // Replicas of a shard are as far apart as there are shards.
  const Spread of_replicas =
      shards >= on_a_host ? Spread{std::min(replicas, hosts), replicas / std::min(replicas, hosts)}
                          : Spread{hosts, replicas / hosts};
  const WireSize computed = *WireSize::create("", options_.compute),
                 added = *WireSize::create("", options_.reduce),
                 summed = *WireSize::create("", DataType::kFloat32);
  TrafficPlan plan;
  const auto count = [&plan](std::uint64_t& bytes, const Sent& sent, std::uint64_t times) {
    bytes += times * sent.bytes;
    plan.shared += times * sent.shared;
    plan.other_hosts += times * sent.other_hosts;
    if (&bytes != &plan.gathers) plan.other_hosts_sums += times * sent.other_hosts;
  };

  const Sent gather = sent_of_parts(weights_, elements, neighbours(shards));
  if (parameters_are_whole() || keeps_whole_for_step(group)) {
    count(plan.gathers, gather, 1);
  } else if (options_.after_forward == AfterForward::kKeep) {
    count(plan.gathers, gather, passes);
  } else if (options_.after_forward == AfterForward::kSecondary) {
    count(plan.gathers, gather, 1);
    count(plan.gathers, sent_of_parts(computed, elements, neighbours(options_.secondary_ranks)),
          2 * passes - 1);
  } else {
    count(plan.gathers, gather, 2 * passes);
  }

  if (options_.gradients.method == GradientCompression::Method::kPowerSgd && replicas > 1) {
    const PowerSgdTravel travel = power_sgd(group);
    for (const auto& [padded, useful] :
         {std::pair(travel.first, travel.shape.first), std::pair(travel.next, travel.shape.next)})
      count(plan.replicas, sent_of_all(summed, with_padding ? padded : useful, of_replicas), 1);
    return plan;
  }
  count(plan.reductions,
        sent_of_parts(compresses_replicas() ? added : gradients_, elements, neighbours(shards)),
        sends);
  const std::size_t shard =
      with_padding ? summed_elements(group) : elements / static_cast<std::size_t>(shards);
  const WireSize& plain = replicas_add_last() ? summed : added;
  const WireSize& size = compresses_replicas() && !gradients_.is_plain() ? gradients_ : plain;
  count(plan.replicas, sent_of_all(size, shard, of_replicas), replicas_add_last() ? 1 : sends);
  return plan;
}

TrafficPlan Plan::traffic(int hosts) const {
  TrafficPlan all;
  std::uint64_t useful = 0;
  for (GroupId group = 0; group < layout_->groups().size(); ++group) {
    const TrafficPlan part = traffic_of(group, true, hosts);
    all.gathers += part.gathers;
    all.reductions += part.reductions;
    all.replicas += part.replicas;
    all.shared += part.shared;
    all.other_hosts += part.other_hosts;
    all.other_hosts_sums += part.other_hosts_sums;
    useful += traffic_of(group, false, hosts).all();
  }
  all.padding = all.all() - std::min(useful, all.all());
  return all;
}

std::size_t Plan::summed_elements(GroupId group) const {
  return mesh_.shards() == 1 && changes_zeros(options_.gradients.format)
             ? layout_->elements(group)
             : layout_->shard_elements(group);
}

PowerSgdTravel Plan::power_sgd(GroupId group) const {
  PowerSgdTravel travel{.shape = power_sgd_shape(*layout_, group, options_.gradients.rank)};
  const std::size_t unit = kAlignment * static_cast<std::size_t>(mesh_.replicas());
  const auto padded = [unit](std::size_t elements) { return (elements + unit - 1) / unit * unit; };
  travel.first = padded(travel.shape.first);
  travel.next = padded(travel.shape.next);
  return travel;
}

Plan Plan::uncompressed() const {
  Plan plain = *this;
  plain.options_.weights.clear();
  plain.options_.gradients = {};
  (void)plain.choose_sizes();
  return plain;
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
  const GradientCompression& gradients = o.gradients;
  hash.add(weights_.text()).add(gradients_.text());
  for (const std::uint64_t number :
       {static_cast<std::uint64_t>(gradients.method),
        static_cast<std::uint64_t>(gradients.feedback),
        static_cast<std::uint64_t>(std::bit_cast<std::uint32_t>(gradients.momentum)),
        static_cast<std::uint64_t>(gradients.rank),
        static_cast<std::uint64_t>(gradients.warmup_steps)})
    hash.add(number);
  for (const bool kept : keeps_whole_) hash.add(kept ? 1 : 0);
  for (const bool kept : is_kept_for_step_) hash.add(kept ? 1 : 0);
  return hash.value();
}

}  // namespace tutti::training
