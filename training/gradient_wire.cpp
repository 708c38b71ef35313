#include "training/gradient_wire.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "training/numbers.hpp"
#include "training/outcome.hpp"
#include "training/typed_calls.hpp"

namespace tutti::training {
namespace {

using Method = GradientCompression::Method;

constexpr const char* kOwed = "owed_";
constexpr const char* kOwedMomentum = "owed_momentum_";
constexpr const char* kVelocity = "velocity_";

/// The number behind a kind; empty if `kind` does not begin with `start`, or has none.
std::optional<int> rank_behind(std::string_view start, std::string_view kind) {
  if (!kind.starts_with(start)) return std::nullopt;
  int rank = 0;
  const char* const end = kind.data() + kind.size();
  const auto [rest, wrong] = std::from_chars(kind.data() + start.size(), end, rank);
  if (wrong != std::errc{} || rest != end || rank < 0) return std::nullopt;
  return rank;
}

/// Adds the time since its construction.
class Counted {
 public:
  explicit Counted(std::chrono::duration<double>& time) : time_(time) {}
  ~Counted() { time_ += std::chrono::steady_clock::now() - begin_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::chrono::duration<double>& time_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

void add(std::span<const float> values, std::span<float> into) {
  for (std::size_t i = 0; i < values.size(); ++i) into[i] += values[i];
}

double squares_of(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return sum;
}

}  // namespace

Result<GradientWire> GradientWire::create(const Plan& plan, Rank rank, Comm& reductions,
                                          Comm& replicas, StepGuard& guard) {
  GradientWire wire(plan, rank, reductions, replicas, guard);
  if (!plan.options().gradients.is_on() || wire.is_alone()) return wire;
  if (plan.options().gradients.method == Method::kPowerSgd)
    TRAINING_TRY(wire.make_thin());
  else
    TRAINING_TRY(wire.make_lanes());
  return wire;
}

Status GradientWire::make_lanes() {
  const std::string how = plan_.options().gradients.format + (owes() ? ":errors=feedback" : "");
  for (GroupId group = 0; group < plan_.layout()->groups().size(); ++group) {
    Lane lane;
    TRAINING_ASSIGN(lane.compression, Compression::create(how.c_str()));
    if (has_momentum()) lane.velocity.resize(plan_.summed_elements(group));
    lanes_.push_back(std::move(lane));
  }
  return ok_status();
}

Status GradientWire::make_thin() {
  const FlatLayout& layout = *plan_.layout();
  for (GroupId group = 0; group < layout.groups().size(); ++group) {
    const PowerSgdTravel travel = plan_.power_sgd(group);
    Thin thin;
    TRAINING_ASSIGN(thin.first, Slab::allocate(*replicas_, travel.first * sizeof(float)));
    TRAINING_ASSIGN(thin.next, Slab::allocate(*replicas_, travel.next * sizeof(float)));
    thin_.push_back(std::move(thin));
    power_sgd_.emplace_back(travel.shape, layout, replicas_->size());
  }
  return ok_status();
}

void GradientWire::begin_step(std::int64_t steps) {
  constexpr int kMostPasses = 16;  // bits of the number of a call within a step
  steps_ = steps;
  for (Lane& lane : lanes_)
    (void)lane.compression->set_call_number(static_cast<std::uint64_t>(steps) << kMostPasses);
}

bool GradientWire::compresses() const {
  return (!lanes_.empty() || !power_sgd_.empty()) &&
         steps_ >= plan_.options().gradients.warmup_steps;
}

// ---- Sending

Status GradientWire::send(GroupId group, std::span<std::byte> whole, std::span<std::byte> own,
                          Stream& stream) {
  if (is_alone()) {
    if (!debts_.empty()) pay(group, as_floats(whole));
    return ok_status();
  }
  if (compresses() && !plan_.replicas_add_last()) TRAINING_TRY(prepare(group, whole));
  if (compresses() && !power_sgd_.empty()) return send_factored(group, own, stream);
  if (reductions_->size() > 1) TRAINING_TRY(reduce_scatter(group, whole, own, stream));
  if (replicas_->size() > 1 && !plan_.replicas_add_last())
    TRAINING_TRY(all_reduce(group, plan_.options().reduce, own, stream));
  return ok_status();
}

Status GradientWire::add_replicas(GroupId group, std::span<float> total, Stream& stream) {
  if (compresses()) {
    if (!lanes_.empty()) lanes_[group].is_used = true;
    pay(group, total);
  }
  return all_reduce(group, DataType::kFloat32, std::as_writable_bytes(total), stream);
}

/// What is sent is more than the gradients.
Status GradientWire::prepare(GroupId group, std::span<std::byte> gradients) {
  const bool is_momentum = plan_.options().gradients.method == Method::kMomentum;
  if (!owes() && !is_momentum) return ok_status();
  const Counted counted(own_time_);
  if (!lanes_.empty()) lanes_[group].is_used = true;
  const std::span<float> values = as_floats(gradients);
  if (preparation_) preparation_(group, values);
  if (has_momentum()) {
    Lane& lane = lanes_[group];
    const float kept = plan_.options().gradients.momentum;
    lane.old_velocity.swap(lane.velocity);
    lane.velocity.resize(lane.old_velocity.size());
    for (std::size_t i = 0; i < lane.velocity.size(); ++i) {
      const float velocity = kept * lane.old_velocity[i] + values[i];
      lane.velocity[i] = values[i] = velocity;
    }
  }
  pay(group, values.subspan(begin_of(group)));
  return ok_status();
}

/// Debts of other ranks are paid at once. `gradients`: from begin_of() on.
void GradientWire::pay(GroupId group, std::span<float> gradients) {
  for (Debt& debt : debts_) {
    if (debt.group != group || debt.is_paid) continue;
    add(debt.values, gradients);
    debt.is_paid = true;
  }
}

Status GradientWire::reduce_scatter(GroupId group, std::span<std::byte> whole,
                                    std::span<std::byte> own, Stream& stream) {
  const DataType type = plan_.options().reduce;
  const bool small = compresses() && !plan_.compresses_replicas();
  return guard_->check(training::reduce_scatter(*reductions_, type, whole, own, stream,
                                                small ? &*lanes_[group].compression : nullptr));
}

Status GradientWire::all_reduce(GroupId group, DataType type, std::span<std::byte> data,
                                Stream& stream) {
  if (!compresses()) return guard_->check(training::all_reduce(*replicas_, type, data, stream));
  return guard_->check(training::all_reduce(
      *replicas_, type, data.first(plan_.summed_elements(group) * bytes_of(type)), stream,
      &*lanes_[group].compression));
}

/// All ranks make the same calls in the same order: each group's second one right before the next
/// group's first one.
Status GradientWire::send_factored(GroupId group, std::span<std::byte> gradients, Stream& stream) {
  thin_stream_ = &stream;
  TRAINING_TRY(turn());
  Thin& thin = thin_[group];
  thin.into = gradients;
  {
    const Counted counted(own_time_);
    power_sgd_[group].factor(as_floats(gradients), as_floats(thin.first.data()));
  }
  factored_.push_back(group);
  being_turned_ = group;
  return guard_->check(
      training::all_reduce(*replicas_, DataType::kFloat32, thin.first.data(), stream));
}

Status GradientWire::turn() {
  if (!being_turned_) return ok_status();
  TRAINING_TRY(guard_->wait(*thin_stream_));
  const GroupId group = *std::exchange(being_turned_, std::nullopt);
  Thin& thin = thin_[group];
  {
    const Counted counted(own_time_);
    power_sgd_[group].turn(as_floats(thin.first.data()), as_floats(thin.next.data()));
  }
  return guard_->check(
      training::all_reduce(*replicas_, DataType::kFloat32, thin.next.data(), *thin_stream_));
}

Status GradientWire::finish() {
  TRAINING_TRY(turn());
  if (factored_.empty()) return ok_status();
  TRAINING_TRY(guard_->wait(*thin_stream_));
  const Counted counted(own_time_);
  for (const GroupId group : factored_)
    power_sgd_[group].rebuild(as_floats(thin_[group].next.data()), as_floats(thin_[group].into));
  factored_.clear();
  return ok_status();
}

Status GradientWire::end_step(Lane& lane, bool undone) const {
  if (undone) lane.velocity.swap(lane.old_velocity);
  if (!owes()) return ok_status();
  std::size_t count = 0;
  TRAINING_TRY(to_status(tuttiCompressionErrorCount(lane.compression->native(), &count)));
  lane.owed.resize(count);
  if (undone) return lane.compression->set_errors(lane.owed);
  TRAINING_TRY(
      to_status(tuttiCompressionGetErrors(lane.compression->native(), lane.owed.data(), count)));
  // What has been sent has no momentum left (momentum factor masking).
  for (std::size_t i = 0; i < lane.velocity.size(); ++i)
    if (lane.owed[i] == 0) lane.velocity[i] = 0;
  return ok_status();
}

Status GradientWire::end_step(bool undone) {
  const Counted counted(own_time_);
  for (Lane& lane : lanes_)
    if (std::exchange(lane.is_used, false)) TRAINING_TRY(end_step(lane, undone));
  if (undone && compresses())
    for (PowerSgd& group : power_sgd_) group.undo();
  if (!undone) std::erase_if(debts_, &Debt::is_paid);
  for (Debt& debt : debts_) debt.is_paid = false;
  return ok_status();
}

// ---- What is kept

std::span<const float> GradientWire::owed_in(GroupId group) const {
  if (!power_sgd_.empty()) return power_sgd_[group].owed();
  return lanes_.empty() ? std::span<const float>() : lanes_[group].owed;
}

std::string GradientWire::kind_of_debt() const {
  return plan_.options().gradients.method == Method::kMomentum ? kOwedMomentum : kOwed;
}

bool GradientWire::can_owe() const {
  const Method method = plan_.options().gradients.method;
  return !lanes_.empty() || !power_sgd_.empty() ||
         (is_alone() && (method == Method::kFormat || method == Method::kPowerSgd));
}

int GradientWire::part() const {
  return plan_.compresses_replicas() ? plan_.mesh().replica_of(rank_) : rank_;
}

int GradientWire::parts() const {
  return plan_.compresses_replicas() ? plan_.mesh().replicas() : plan_.mesh().world();
}

std::optional<int> GradientWire::part_behind(std::string_view kind) const {
  if (!can_owe()) return std::nullopt;
  if (const auto of = rank_behind(kind_of_debt(), kind); of && owes()) return of;
  return has_momentum() ? rank_behind(kVelocity, kind) : std::nullopt;
}

bool GradientWire::knows(std::string_view kind) const { return part_behind(kind).has_value(); }

bool GradientWire::takes(std::string_view kind) const {
  const auto of = part_behind(kind);
  return of && *of % parts() == part();
}

/// Where what is compressed of a group begins in its buffer: all, or this rank's shard.
std::size_t GradientWire::begin_of(GroupId group) const {
  if (!plan_.compresses_replicas()) return 0;
  return static_cast<std::size_t>(plan_.mesh().shard_of(rank_)) *
         plan_.layout()->shard_elements(group);
}

GradientWire::Kept GradientWire::place_of(std::string kind, GroupId group) const {
  const std::size_t elements =
      plan_.compresses_replicas() ? plan_.summed_elements(group) : plan_.layout()->padded(group);
  return {std::move(kind), group, begin_of(group), std::vector<float>(elements)};
}

std::vector<GradientWire::Kept> GradientWire::kept() const {
  std::vector<Kept> all;
  const auto save = [&](const std::string& start, int of, GroupId group,
                        std::span<const float> values) {
    Kept one = place_of(start + std::to_string(of), group);
    std::ranges::copy(values, one.values.begin());
    all.push_back(std::move(one));
  };
  for (const Debt& debt : debts_) save(kind_of_debt(), debt.of, debt.group, debt.values);
  if (lanes_.empty() && power_sgd_.empty()) return all;
  for (GroupId group = 0; group < plan_.layout()->groups().size(); ++group) {
    const std::span<const float> owed = owed_in(group);
    const std::size_t vector = place_of("", group).values.size();
    // Where an algorithm encodes elements several times at a rank, as what more ranks owe.
    for (std::size_t i = 0; i * vector < owed.size(); ++i)
      save(kind_of_debt(), part() + static_cast<int>(i) * parts(), group,
           owed.subspan(i * vector, std::min(vector, owed.size() - i * vector)));
    if (has_momentum()) save(kVelocity, part(), group, lanes_[group].velocity);
  }
  return all;
}

Status GradientWire::keep(Kept kept) {
  if (has_momentum() && rank_behind(kVelocity, kept.kind)) {
    add(kept.values, lanes_[kept.group].velocity);
    return ok_status();
  }
  const auto of = rank_behind(kind_of_debt(), kept.kind);
  if (!of)
    return failure(Code::kInvalidArgument, "'{}' is nothing that ranks keep for later steps",
                   kept.kind);
  if (*of != part() || is_alone()) {
    debts_.push_back({kept.group, *of, std::move(kept.values)});
    return ok_status();
  }
  if (power_sgd_.empty()) {
    Lane& lane = lanes_[kept.group];
    lane.owed = std::move(kept.values);
    return lane.compression->set_errors(lane.owed);
  }
  const std::span<float> owed = power_sgd_[kept.group].owed();
  std::ranges::copy(std::span(kept.values).first(owed.size()), owed.begin());
  return ok_status();
}

Status GradientWire::forget() {
  debts_.clear();
  for (Lane& lane : lanes_) {
    TRAINING_TRY(lane.compression->reset());
    lane.owed.clear();
    std::ranges::fill(lane.velocity, 0.0F);
  }
  for (PowerSgd& group : power_sgd_) std::ranges::fill(group.owed(), 0.0F);
  return ok_status();
}

double GradientWire::squares_owed() const {
  double sum = 0;
  for (const Debt& debt : debts_) sum += squares_of(debt.values);
  for (GroupId group = 0; group < std::max(lanes_.size(), power_sgd_.size()); ++group)
    sum += squares_of(owed_in(group));
  return sum;
}

double GradientWire::seconds() const {
  double seconds = own_time_.count();
  for (const Lane& lane : lanes_) seconds += lane.compression->busy_seconds();
  return seconds;
}

std::size_t GradientWire::bytes() const {
  std::size_t floats = 0, bytes = 0;
  for (const Lane& lane : lanes_) {
    floats += 2 * lane.owed.size() + lane.velocity.size() + lane.old_velocity.size();
  }
  for (const PowerSgd& group : power_sgd_) bytes += group.bytes();
  for (const Thin& thin : thin_) bytes += thin.first.data().size() + thin.next.data().size();
  return bytes + floats * sizeof(float);
}

}  // namespace tutti::training
