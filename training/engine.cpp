#include "training/engine.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <initializer_list>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include "training/agreement.hpp"
#include "training/gradient_norm.hpp"
#include "training/gradient_store.hpp"
#include "training/hash.hpp"
#include "training/numbers.hpp"
#include "training/outcome.hpp"
#include "training/parameter_store.hpp"
#include "training/sharded_optimizer.hpp"
#include "training/slab.hpp"
#include "training/step_guard.hpp"
#include "training/typed_calls.hpp"
#include "tutti/stats.hpp"

namespace tutti::training {

/// Communicators by what goes over them, so that gathers do not wait for reductions.
struct Channels {
  Comm gathers, reductions;       ///< of the ranks that share shards
  Comm replicas;                  ///< of those that have the same shard
  std::optional<Comm> secondary;  ///< of neighbours with secondary shards
  Comm control;                   ///< of all
};

namespace {

/// Sums over ranks are those of one binary tree, whatever the size and the hosts.
Status add_along_tree(Comm& comm, Collective collective) {
  return comm.size() == 1 ? ok_status() : comm.set_algorithm(collective, "fixed_tree");
}

Result<Channels> make_channels(const Plan& plan, Comm& world) {
  const Mesh& mesh = plan.mesh();
  const Rank rank = world.rank();
  const int replica = mesh.replica_of(rank), shard = mesh.shard_of(rank);
  TRAINING_ASSIGN(Comm gathers, world.split(replica, rank));
  TRAINING_ASSIGN(Comm reductions, world.split(replica, rank));
  TRAINING_ASSIGN(Comm replicas, world.split(shard, rank));
  std::optional<Comm> secondary;
  if (plan.options().secondary_ranks > 0) {
    TRAINING_ASSIGN(secondary, world.split(rank / plan.options().secondary_ranks, rank));
  }
  TRAINING_ASSIGN(Comm control, world.split(0, rank));
  if (plan.options().deterministic) {
    TRAINING_TRY(add_along_tree(reductions, Collective::kReduceScatter));
    TRAINING_TRY(add_along_tree(replicas, Collective::kAllReduce));
  }
  return Channels{std::move(gathers), std::move(reductions), std::move(replicas),
                  std::move(secondary), std::move(control)};
}

/// Of all that ranks have to share beside the model.
std::uint64_t hash_of(const Plan& plan, const Optimizer& optimizer) {
  Hash hash;
  hash.add(plan.hash()).add(optimizer.index());
  const auto add = [&](std::initializer_list<double> numbers) {
    for (const double number : numbers) hash.add(std::bit_cast<std::uint64_t>(number));
  };
  if (const auto* const adamw = std::get_if<AdamW>(&optimizer))
    add({adamw->learning_rate, adamw->beta1, adamw->beta2, adamw->epsilon, adamw->weight_decay});
  if (const auto* const sgd = std::get_if<Sgd>(&optimizer))
    add({sgd->learning_rate, sgd->momentum, sgd->weight_decay});
  return hash.value();
}

Status check_plan(const Plan& plan, const Optimizer& optimizer, const Comm& world) {
  if (plan.mesh().world() != world.size())
    return failure(Code::kInvalidArgument, "a plan for {} ranks, of which there are {}",
                   plan.mesh().world(), world.size());
  if (plan.options().moments != moments_of(optimizer))
    return failure(Code::kInvalidArgument,
                   "a plan for {} moments of each parameter, and an optimizer with {}: say so in "
                   "PlanOptions::moments",
                   plan.options().moments, moments_of(optimizer));
  return ok_status();
}

Status check_step(const StepOptions& options) {
  const auto scale = static_cast<float>(options.gradient_scale);
  if (!std::isfinite(scale) || scale <= 0)
    return failure(Code::kInvalidArgument,
                   "gradients are scaled by a float32 number above 0, not by {}",
                   options.gradient_scale);
  if (options.clip_norm && !(*options.clip_norm > 0))
    return failure(Code::kInvalidArgument, "gradients are clipped to a norm above 0, not to {}",
                   *options.clip_norm);
  if (options.learning_rate && !std::isfinite(*options.learning_rate))
    return failure(Code::kInvalidArgument, "a learning rate of {} is no number",
                   *options.learning_rate);
  return ok_status();
}

std::uint32_t hash_of(const StepOptions& options) {
  Hash hash;
  for (const double number :
       {options.gradient_scale, options.learning_rate.value_or(-1), options.clip_norm.value_or(-1)})
    hash.add(std::bit_cast<std::uint64_t>(number));
  return static_cast<std::uint32_t>(hash.value() ^ hash.value() >> 32U);
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

struct Engine::Parts {
  Parts(Plan made, const Optimizer& options, Comm& all, Channels between,
        std::chrono::milliseconds patience)
      : plan(std::move(made)),
        world(all),
        channels(std::move(between)),
        guard(plan.layout(), std::move(channels.control), patience),
        optimizer(plan.layout(), plan.mesh().shard_of(all.rank()), options) {
    std::vector<Comm*> ended = {&channels.gathers, &channels.reductions, &channels.replicas};
    if (channels.secondary) ended.push_back(&*channels.secondary);
    guard.revokes(std::move(ended));
  }
  ~Parts() {
    if (!gradients || failed) return;
    // Others may wait for gradients that this rank will not send, or for its part of what was
    // gathered ahead.
    const bool is_between_passes = gradients->is_idle() && !parameters->is_in_use();
    if (!is_between_passes || !parameters->settle())
      (void)give_up({Code::kAborted, "gave up in the middle of a step"});
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  Status allocate();
  /// Notes an error, which ends training on all ranks.
  Error give_up(Error error);
  template <class T>
  Result<T> ended(Result<T> outcome) {
    if (outcome) return outcome;
    return give_up(std::move(outcome).error());
  }

  [[nodiscard]] const FlatLayout& layout() const { return *plan.layout(); }
  [[nodiscard]] GroupId groups() const { return static_cast<GroupId>(layout().groups().size()); }
  [[nodiscard]] int shard() const { return plan.mesh().shard_of(world.rank()); }
  /// Float32 of this rank's shard of a group: what is stepped.
  std::span<float> master(GroupId group);
  /// The masters of a group have changed: all ranks get them, by finish_publishing() at the latest.
  Status publish(GroupId group);
  Status finish_publishing();
  /// Rounding at random depends on the number of the step.
  void begin_step() {
    parameters->begin_step(optimizer.steps());
    gradients->wire().begin_step(optimizer.steps());
  }
  /// What this one of several replicas does for all of them of a shard of a group.
  template <class T>
  [[nodiscard]] std::span<T> replica_part(std::span<T> shard) const {
    const auto replicas = static_cast<std::size_t>(plan.mesh().replicas());
    const std::size_t part = shard.size() / replicas;
    return shard.subspan(static_cast<std::size_t>(plan.mesh().replica_of(world.rank())) * part,
                         part);
  }
  Result<double> norm_of_sums();
  Status take_step(const StepOptions& options, float scale);
  /// Whether ranks add momentum in this step.
  [[nodiscard]] bool adds_momentum() const {
    return plan.options().gradients.method == GradientCompression::Method::kMomentum &&
           gradients->wire().compresses();
  }
  [[nodiscard]] FrozenAdam frozen_adam() const {
    return {.adamw = {},
            .warmup_steps = plan.options().gradients.warmup_steps,
            .ranks = world.size(),
            .own_momentum = plan.options().gradients.momentum,
            .gradient_scale = static_cast<float>(announced_scale.value_or(1))};
  }
  /// Sums of what ranks added become what a step takes; returns by what it multiplies that.
  Result<double> prepare_step(const StepOptions& options);
  Status fill(GroupId group, std::span<float> all,
              const std::function<void(ParameterId, std::span<float>)>& values);
  Status read(const Checkpoint& checkpoint);
  [[nodiscard]] Piece part_of(ParameterId id, std::size_t begin, std::size_t count) const;
  void add_kept(std::vector<OwnedPiece>& owned);
  Status read_kept(const Checkpoint& checkpoint, const std::set<std::string>& kinds);
  [[nodiscard]] std::vector<std::string> notes_on(const std::set<std::string>& kinds) const;
  [[nodiscard]] std::string kind_of_factors() const {
    return fmt::format("factor_{}", plan.options().gradients.rank);
  }
  /// Since communicators were made.
  [[nodiscard]] Traffic sent() const;

  Plan plan;
  Comm& world;
  Channels channels;
  StepGuard guard;
  ShardedOptimizer optimizer;
  std::optional<ParameterStore> parameters;
  std::optional<GradientStore> gradients;
  std::vector<std::vector<float>> masters;  ///< by group, if Plan::keeps_masters()
  std::uint64_t version = 0;                ///< of the parameters
  std::optional<Error> failed;
  std::optional<double> announced_scale;     ///< gradient_scale of the step to come
  std::vector<GradientWire::Kept> kept;      ///< what owned() shows
  Traffic taken;                             ///< what sent() was at the last take_traffic()
  double waited = 0, optimizer_seconds = 0;  ///< since take_times()
  double coding_taken = 0;                   ///< what take_times() has told
};

// ---- Making

Result<std::unique_ptr<Engine>> Engine::create(Plan plan, const Optimizer& optimizer, Comm& world,
                                               std::chrono::milliseconds patience) {
  TRAINING_TRY(agree(world, check_plan(plan, optimizer, world)));
  TRAINING_TRY(agree_on_model(world, plan.layout()->table(), hash_of(plan, optimizer)));
  auto channels = make_channels(plan, world);
  TRAINING_TRY(agree(world, channels ? ok_status() : Status(channels.error())));
  auto parts =
      std::make_unique<Parts>(std::move(plan), optimizer, world, *std::move(channels), patience);
  TRAINING_TRY(agree(world, parts->allocate()));
  return std::unique_ptr<Engine>(new Engine(std::move(parts)));
}

Status Engine::Parts::allocate() {
  TRAINING_ASSIGN(parameters, ParameterStore::create(
                                  plan, channels.gathers,
                                  channels.secondary ? &*channels.secondary : nullptr, guard));
  TRAINING_ASSIGN(gradients, GradientStore::create(plan, world.rank(), channels.reductions,
                                                   channels.replicas, guard));
  if (plan.options().gradients.method == GradientCompression::Method::kMomentum)
    gradients->wire().prepares([this](GroupId group, std::span<float> values) {
      optimizer.prepare_frozen(frozen_adam(), group, values);
    });
  begin_step();
  if (!plan.keeps_masters()) return ok_status();
  for (GroupId group = 0; group < groups(); ++group)
    masters.emplace_back(layout().shard_elements(group));
  return ok_status();
}

Engine::Engine(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Engine::~Engine() = default;

Error Engine::Parts::give_up(Error error) {
  if (!failed) failed = guard.give_up(std::move(error));
  return *failed;
}

const Plan& Engine::plan() const { return parts_->plan; }
const FlatLayout& Engine::layout() const { return parts_->layout(); }

std::span<float> Engine::Parts::master(GroupId group) {
  if (masters.empty()) return as_floats(parameters->own(group));
  return masters[group];
}

Status Engine::Parts::publish(GroupId group) {
  if (!masters.empty()) write_as(plan.options().compute, masters[group], parameters->own(group));
  return parameters->publish(group);
}

Status Engine::Parts::finish_publishing() {
  ++version;
  return parameters->settle();
}

Status Engine::Parts::fill(GroupId group, std::span<float> all,
                           const std::function<void(ParameterId, std::span<float>)>& values) {
  if (world.rank() == 0) {
    std::ranges::fill(all, 0.0F);
    for (const ParameterId id : layout().groups()[group].parameters)
      values(id, all.subspan(layout().offset_of(id), layout().table().elements(id)));
  }
  TRAINING_TRY(guard.check(world.broadcast<float>(all, 0)));
  const std::span<float> own = master(group);
  std::ranges::copy(all.subspan(static_cast<std::size_t>(shard()) * own.size(), own.size()),
                    own.begin());
  return publish(group);
}

Status Engine::fill(const std::function<void(ParameterId, std::span<float>)>& values) {
  Parts& parts = *parts_;
  if (parts.failed) return *parts.failed;
  std::vector<float> memory(parts.layout().largest());
  for (GroupId group = 0; group < parts.groups(); ++group)
    TRAINING_TRY(parts.ended(
        parts.fill(group, std::span(memory).first(parts.layout().padded(group)), values)));
  return parts.ended(parts.finish_publishing());
}

Result<std::vector<float>> Engine::whole(ParameterId id) {
  Parts& parts = *parts_;
  if (parts.failed) return *parts.failed;
  const GroupId group = parts.layout().group_of(id);
  std::vector<float> all(parts.layout().padded(group));
  parts.guard.note(Operation::kGather, group);
  TRAINING_TRY(parts.ended(
      parts.guard.check(parts.channels.gathers.all_gather<float>(parts.master(group), all))));
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(parts.layout().offset_of(id));
  return std::vector<float>(
      begin, begin + static_cast<std::ptrdiff_t>(parts.layout().table().elements(id)));
}

// ---- Parameters and gradients

Result<std::span<std::byte>> Engine::use(GroupId unit, Pass pass) {
  if (parts_->failed) return *parts_->failed;
  return parts_->ended(parts_->parameters->use(unit, pass));
}

Status Engine::release(GroupId unit, Pass pass) {
  if (parts_->failed) return *parts_->failed;
  return parts_->ended(parts_->parameters->release(unit, pass));
}

std::span<std::byte> Engine::parameter(ParameterId id) const {
  return parts_->parameters->parameter(id);
}

Status Engine::begin_backward(bool is_last, std::optional<double> gradient_scale) {
  Parts& parts = *parts_;
  if (parts.failed) return *parts.failed;
  if (parts.adds_momentum()) {
    if (!gradient_scale)
      return parts.give_up(failure(
          Code::kInvalidUsage,
          "gradients are added to the momentum before that is sent: give begin_backward() the "
          "gradient_scale of the step"));
    TRAINING_TRY(parts.ended(check_step({.gradient_scale = *gradient_scale})));
  }
  parts.announced_scale = gradient_scale;
  return parts.ended(parts.gradients->begin(is_last));
}

Result<GradientPlace> Engine::gradient(ParameterId id) {
  if (parts_->failed) return *parts_->failed;
  return parts_->ended(parts_->gradients->place(id));
}

Status Engine::ready(ParameterId id) {
  if (parts_->failed) return *parts_->failed;
  return parts_->ended(parts_->gradients->ready(id));
}

Status Engine::ready_without(ParameterId id) {
  if (parts_->failed) return *parts_->failed;
  return parts_->ended(parts_->gradients->ready_without(id));
}

std::vector<ParameterId> Engine::missing() const { return parts_->gradients->missing(); }

Status Engine::end_backward() {
  if (parts_->failed) return *parts_->failed;
  return parts_->ended(parts_->gradients->finish());
}

Error Engine::give_up(Error why) { return parts_->give_up(std::move(why)); }

// ---- The step

/// Over all ranks; NaN where a gradient is infinite or no number. Replicas have the same sums, and
/// look at a part of them each.
Result<double> Engine::Parts::norm_of_sums() {
  const std::size_t elements = layout().table().elements();
  float largest = 0;
  for (GroupId group = 0; group < groups(); ++group)
    largest = std::max(largest, magnitude(replica_part(gradients->sums(group))));
  TRAINING_ASSIGN(largest, guard.meet(largest));
  std::array<std::int64_t, 2> sums = {};
  for (GroupId group = 0; group < groups(); ++group) {
    const Squares own = squares(replica_part(gradients->sums(group)), largest, elements);
    sums[0] += own.high;
    sums[1] += own.low;
  }
  TRAINING_TRY(guard.add_up(sums));
  return norm({sums[0], sums[1]}, largest, elements);
}

Status Engine::Parts::take_step(const StepOptions& options, float scale) {
  if (options.learning_rate) optimizer.set_learning_rate(*options.learning_rate);
  optimizer.begin_step();
  for (GroupId group = 0; group < groups(); ++group) {
    if (adds_momentum())
      optimizer.frozen_step(frozen_adam(), group, scale, gradients->sums(group), master(group));
    else
      optimizer.step(group, gradients->sums(group), master(group), scale);
    TRAINING_TRY(publish(group));
  }
  return finish_publishing();
}

Result<double> Engine::Parts::prepare_step(const StepOptions& options) {
  if (!adds_momentum()) return options.gradient_scale;
  if (options.gradient_scale != *announced_scale)
    return failure(Code::kInvalidUsage,
                   "a step with the gradient_scale {}, and begin_backward() was told {}",
                   options.gradient_scale, *announced_scale);
  for (GroupId group = 0; group < groups(); ++group)
    optimizer.frozen_momentum(frozen_adam(), group, gradients->sums(group));
  return 1;
}

Result<StepOutcome> Engine::step(const StepOptions& options) {
  Parts& parts = *parts_;
  if (parts.failed) return *parts.failed;
  const auto begin = std::chrono::steady_clock::now();
  TRAINING_TRY(parts.ended(check_step(options)));
  if (!parts.gradients->is_complete())
    return parts.give_up(
        failure(Code::kInvalidUsage,
                "the gradients of this step are not complete: the last pass comes before step()"));
  parts.kept.clear();
  parts.waited += parts.guard.take_waited();
  const double waited = parts.waited;
  parts.guard.note(Operation::kStep, hash_of(options));
  TRAINING_ASSIGN(const double scale, parts.ended(parts.prepare_step(options)));
  TRAINING_ASSIGN(const double norm, parts.ended(parts.norm_of_sums()));
  StepOutcome outcome;
  outcome.norm = norm * scale;
  outcome.skipped = std::isnan(norm);
  if (!outcome.skipped) {
    const bool clips = options.clip_norm && outcome.norm > *options.clip_norm;
    const double factor = clips ? *options.clip_norm / outcome.norm : 1;
    TRAINING_TRY(parts.ended(parts.take_step(options, static_cast<float>(scale * factor))));
  }
  TRAINING_TRY(parts.ended(parts.gradients->clear(outcome.skipped)));
  parts.begin_step();
  parts.waited += parts.guard.take_waited();
  parts.optimizer_seconds += seconds_since(begin) - (parts.waited - waited);
  return outcome;
}

// ---- Checkpoints

std::vector<OwnedPiece> Engine::owned() {
  Parts& parts = *parts_;
  const Mesh& mesh = parts.plan.mesh();
  const auto replica = static_cast<std::size_t>(mesh.replica_of(parts.world.rank()));
  std::vector<OwnedPiece> owned;
  for (GroupId group = 0; group < parts.groups(); ++group) {
    // Replicas have the same shard, and save a part of it each.
    const std::size_t part =
        parts.layout().shard_elements(group) / static_cast<std::size_t>(mesh.replicas());
    const std::size_t first = replica * part, last = first + part;
    for (const Piece& piece : parts.layout().pieces(group, parts.shard())) {
      const std::size_t begin = std::max(first, piece.offset),
                        end = std::min(last, piece.offset + piece.count);
      if (begin >= end) continue;
      const auto save = [&](std::string_view kind, std::span<const float> of) {
        owned.push_back({std::string(kind), piece.parameter, piece.begin + (begin - piece.offset),
                         of.subspan(begin, end - begin)});
      };
      save("parameter", parts.master(group));
      for (int which = 0; which < parts.optimizer.moments(); ++which)
        save(kMoments[static_cast<std::size_t>(which)], parts.optimizer.moment(which, group));
    }
  }
  parts.add_kept(owned);
  return owned;
}

/// Elements of a parameter that lie in [begin, begin + count) of its group's buffer.
Piece Engine::Parts::part_of(ParameterId id, std::size_t begin, std::size_t count) const {
  const std::size_t offset = layout().offset_of(id), elements = layout().table().elements(id);
  const std::size_t from = std::clamp(begin, offset, offset + elements),
                    to = std::clamp(begin + count, offset, offset + elements);
  return {id, from - offset, to - from, from - std::min(from, begin)};
}

void Engine::Parts::add_kept(std::vector<OwnedPiece>& owned) {
  kept = gradients->wire().kept();
  for (const GradientWire::Kept& each : kept) {
    for (const ParameterId id : layout().groups()[each.group].parameters) {
      const Piece piece = part_of(id, each.begin, each.values.size());
      if (piece.count > 0)
        owned.push_back({each.kind, id, piece.begin,
                         std::span(each.values).subspan(piece.offset, piece.count)});
    }
  }
  if (world.rank() != 0) return;
  for (PowerSgd& group : gradients->wire().power_sgd())
    for (const PowerSgdShape::Matrix& matrix : group.shape().matrices)
      owned.push_back({kind_of_factors(), matrix.parameter, 0, group.q(matrix)});
}

Status Engine::Parts::read_kept(const Checkpoint& checkpoint, const std::set<std::string>& kinds) {
  GradientWire& wire = gradients->wire();
  TRAINING_TRY(wire.forget());
  for (const std::string& kind : kinds) {
    if (!wire.takes(kind)) continue;
    for (GroupId group = 0; group < groups(); ++group) {
      GradientWire::Kept one = wire.place_of(kind, group);
      for (const ParameterId id : layout().groups()[group].parameters) {
        const Piece piece = part_of(id, one.begin, one.values.size());
        TRAINING_TRY(checkpoint.read(kind, id, piece.begin,
                                     std::span(one.values).subspan(piece.offset, piece.count)));
      }
      TRAINING_TRY(wire.keep(std::move(one)));
    }
  }
  if (!kinds.contains(kind_of_factors())) return ok_status();
  for (PowerSgd& group : wire.power_sgd())
    for (const PowerSgdShape::Matrix& matrix : group.shape().matrices)
      TRAINING_TRY(checkpoint.read(kind_of_factors(), matrix.parameter, 0, group.q(matrix)));
  return ok_status();
}

/// What of a checkpoint is left out, and what is not in it.
std::vector<std::string> Engine::Parts::notes_on(const std::set<std::string>& kinds) const {
  std::vector<std::string> notes;
  const GradientWire& wire = gradients->wire();
  std::vector<std::string> unused;
  bool has_debts = false;
  for (const std::string& kind : kinds) {
    if (!may_have_gaps(kind)) continue;
    has_debts = has_debts || wire.knows(kind);
    if (!wire.knows(kind) && kind != kind_of_factors()) unused.push_back(kind);
  }
  if (!unused.empty())
    notes.push_back(fmt::format(
        "what the checkpoint keeps for compressed gradients is left out, since this run compresses "
        "none, or otherwise: {}",
        fmt::join(unused, ", ")));
  if (!plan.options().gradients.owes() || !wire.compresses() || has_debts) return notes;
  notes.emplace_back("the checkpoint has nothing that ranks owe: their gradients go on without");
  if (adds_momentum())
    notes.push_back(fmt::format(
        "the variance counts as learned in {} steps, after which it is frozen: if it was learned "
        "in more, say so in the warm-up steps",
        plan.options().gradients.warmup_steps));
  return notes;
}

Status Engine::Parts::read(const Checkpoint& checkpoint) {
  TRAINING_TRY(checkpoint.check_model(layout().table()));
  for (GroupId group = 0; group < groups(); ++group) {
    for (const Piece& piece : layout().pieces(group, shard())) {
      const auto load = [&](std::string_view kind, std::span<float> into) {
        return checkpoint.read(kind, piece.parameter, piece.begin,
                               into.subspan(piece.offset, piece.count));
      };
      TRAINING_TRY(load("parameter", master(group)));
      for (int which = 0; which < optimizer.moments(); ++which)
        TRAINING_TRY(
            load(kMoments[static_cast<std::size_t>(which)], optimizer.moment(which, group)));
    }
  }
  return ok_status();
}

Result<std::vector<std::string>> Engine::load(const Checkpoint& checkpoint, std::int64_t steps) {
  Parts& parts = *parts_;
  if (parts.failed) return *parts.failed;
  std::set<std::string> kinds;
  for (const StoredPiece& piece : checkpoint.manifest().pieces) kinds.insert(piece.kind);
  // What was read in part cannot be trained on.
  TRAINING_TRY(parts.ended(agree(parts.world, parts.read(checkpoint))));
  TRAINING_TRY(parts.ended(agree(parts.world, parts.read_kept(checkpoint, kinds))));
  Hash resumed;
  resumed.add(checkpoint.manifest().step).add(static_cast<std::uint64_t>(steps));
  TRAINING_TRY(parts.ended(
      agree_on_number(parts.world, resumed.value(), "read a checkpoint of another step")));
  // As the step that led there published them.
  parts.parameters->begin_step(std::max<std::int64_t>(0, steps - 1));
  for (GroupId group = 0; group < parts.groups(); ++group)
    TRAINING_TRY(parts.ended(parts.publish(group)));
  TRAINING_TRY(parts.ended(parts.finish_publishing()));
  parts.optimizer.resume(steps);
  parts.begin_step();
  return parts.notes_on(kinds);
}

double Engine::norm_owed() const { return std::sqrt(parts_->gradients->wire().squares_owed()); }

std::uint64_t Engine::version() const { return parts_->version; }

std::int64_t Engine::steps() const { return parts_->optimizer.steps(); }

// ---- What it costs

EngineTimes Engine::take_times() {
  Parts& parts = *parts_;
  parts.waited += parts.guard.take_waited();
  const double coding = parts.parameters->coding_seconds() + parts.gradients->wire().seconds();
  return {std::exchange(parts.waited, 0), std::exchange(parts.optimizer_seconds, 0),
          coding - std::exchange(parts.coding_taken, coding)};
}

MemoryPlan Engine::memory() const {
  const Parts& parts = *parts_;
  MemoryPlan memory;
  memory.parameters = parts.parameters->bytes();
  memory.gradients = parts.gradients->bytes();
  for (const auto& master : parts.masters) memory.masters += master.size() * sizeof(float);
  for (GroupId group = 0; group < parts.groups(); ++group)
    for (int which = 0; which < parts_->optimizer.moments(); ++which)
      memory.moments += parts_->optimizer.moment(which, group).size_bytes();
  memory.windows = parts.parameters->window_bytes() + parts.gradients->window_bytes();
  memory.owed = parts.gradients->wire().bytes();
  return memory;
}

Engine::Traffic Engine::Parts::sent() const {
  Traffic traffic;
  const auto bytes = [&](const Comm& comm, Collective collective) -> std::uint64_t {
    const auto stats = operation_stats(comm, collective);
    traffic.payload.other_hosts += stats ? stats->bytes_sent_to_other_hosts : 0;
    return stats ? stats->bytes_sent : 0;
  };
  traffic.payload.gathers = bytes(channels.gathers, Collective::kAllGather);
  if (channels.secondary)
    traffic.payload.gathers += bytes(*channels.secondary, Collective::kAllGather);
  traffic.payload.reductions = bytes(channels.reductions, Collective::kReduceScatter);
  traffic.payload.replicas = bytes(channels.replicas, Collective::kAllReduce);
  traffic.others = guard.bytes_sent();
  return traffic;
}

Engine::Traffic Engine::take_traffic() {
  const Traffic now = parts_->sent(), before = std::exchange(parts_->taken, now);
  return {{.gathers = now.payload.gathers - before.payload.gathers,
           .reductions = now.payload.reductions - before.payload.reductions,
           .replicas = now.payload.replicas - before.payload.replicas,
           .other_hosts = now.payload.other_hosts - before.payload.other_hosts},
          now.others - before.others};
}

}  // namespace tutti::training
