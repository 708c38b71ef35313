#include "training/gradient_wire.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "training/hash.hpp"
#include "training/numbers.hpp"
#include "training/outcome.hpp"
#include "training/typed_calls.hpp"

namespace tutti::training {
namespace {

using Method = GradientCompression::Method;

constexpr const char* kOwed = "owed_";
constexpr const char* kOwedMomentum = "owed_momentum_";
constexpr const char* kVelocity = "velocity_";

/// Reads a number, and takes it off `text`.
template <class Number>
std::optional<Number> take_number(std::string_view& text, int base) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, wrong] = std::from_chars(text.data(), end, number, base);
  if (wrong != std::errc{} || number < Number{0}) return std::nullopt;
  text = {rest, static_cast<std::size_t>(end - rest)};
  return number;
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
  TRAINING_ASSIGN(wire.hash_, wire.hash_of_coding());
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

/// What decides which elements a rank encodes.
Result<std::uint32_t> GradientWire::hash_of_coding() const {
  Hash hash;
  hash.add(plan_.layout()->hash()).add(plan_.gradients().text());
  hash.add(plan_.compresses_replicas() ? 1 : 0);
  for (const Comm* const comm : {reductions_, replicas_}) {
    std::vector<int> hosts(static_cast<std::size_t>(comm->size()));
    TRAINING_TRY(to_status(tuttiCommPlacement(comm->native(), hosts.data(), nullptr)));
    hash.add(hosts.size());
    for (const int host : hosts) hash.add(static_cast<std::uint64_t>(host));
  }
  return static_cast<std::uint32_t>(hash.value() ^ hash.value() >> 32U);
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
  const std::span<float> values = as_floats(gradients);
  if (!lanes_.empty()) {
    lanes_[group].is_used = true;
    lanes_[group].sums = values;
  }
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
  for (Lane& lane : lanes_)
    if (has_momentum() && lane.is_used) take_momentum(lane);
  TRAINING_TRY(turn());
  if (factored_.empty()) return ok_status();
  TRAINING_TRY(guard_->wait(*thin_stream_));
  const Counted counted(own_time_);
  for (const GroupId group : factored_)
    power_sgd_[group].rebuild(as_floats(thin_[group].next.data()), as_floats(thin_[group].into));
  factored_.clear();
  return ok_status();
}

/// What has arrived has no momentum left (momentum factor masking).
void GradientWire::take_momentum(Lane& lane) const {
  for (std::size_t i = 0; i < lane.velocity.size(); ++i)
    if (lane.sums[i] != 0) lane.velocity[i] = 0;
}

Status GradientWire::end_step(Lane& lane, bool undone) const {
  if (undone) lane.velocity.swap(lane.old_velocity);
  if (!owes()) return ok_status();
  std::size_t count = 0;
  TRAINING_TRY(to_status(tuttiCompressionErrorCount(lane.compression->native(), &count)));
  lane.owed.resize(count);
  if (undone) return lane.compression->set_errors(lane.owed);
  return to_status(tuttiCompressionGetErrors(lane.compression->native(), lane.owed.data(), count));
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

std::string GradientWire::name_of_debt(int of) const {
  return fmt::format("{}{}_{:x}", kind_of_debt(), of, hash_);
}

std::optional<GradientWire::Origin> GradientWire::origin_of(std::string_view kind) const {
  if (!can_owe()) return std::nullopt;
  const std::string debts = kind_of_debt();
  const bool is_debt = owes() && kind.starts_with(debts);
  if (!is_debt && !(has_momentum() && kind.starts_with(kVelocity))) return std::nullopt;
  kind.remove_prefix(is_debt ? debts.size() : std::string_view(kVelocity).size());
  const auto of = take_number<int>(kind, 10);
  if (!of) return std::nullopt;
  if (!is_debt) return kind.empty() ? std::optional(Origin{*of}) : std::nullopt;
  if (!kind.starts_with('_')) return std::nullopt;
  kind.remove_prefix(1);
  const auto hash = take_number<std::uint32_t>(kind, 16);
  return hash && kind.empty() ? std::optional(Origin{*of, *hash}) : std::nullopt;
}

bool GradientWire::knows(std::string_view kind) const { return origin_of(kind).has_value(); }

bool GradientWire::takes(std::string_view kind) const {
  const auto origin = origin_of(kind);
  return origin && origin->of % parts() == part();
}

/// Where what is compressed of a group begins in its buffer: all, or this rank's shard.
std::size_t GradientWire::begin_of(GroupId group) const {
  if (!plan_.compresses_replicas()) return 0;
  return static_cast<std::size_t>(plan_.mesh().shard_of(rank_)) *
         plan_.layout()->shard_elements(group);
}

std::size_t GradientWire::elements_of(GroupId group) const {
  return plan_.compresses_replicas() ? plan_.summed_elements(group) : plan_.layout()->padded(group);
}

GradientWire::Kept GradientWire::place_of(std::string kind, GroupId group) const {
  return {std::move(kind), group, begin_of(group), std::vector<float>(elements_of(group))};
}

std::vector<GradientWire::Kept> GradientWire::kept() const {
  std::vector<Kept> all;
  const auto save = [&](std::string kind, GroupId group, std::span<const float> values) {
    Kept one = place_of(std::move(kind), group);
    std::ranges::copy(values, one.values.begin());
    all.push_back(std::move(one));
  };
  for (const Debt& debt : debts_) save(debt.kind, debt.group, debt.values);
  if (lanes_.empty() && power_sgd_.empty()) return all;
  for (GroupId group = 0; group < plan_.layout()->groups().size(); ++group) {
    const std::span<const float> owed = owed_in(group);
    const std::size_t vector = elements_of(group);
    // Where an algorithm encodes elements several times at a rank, as what more ranks owe.
    for (std::size_t i = 0; i * vector < owed.size(); ++i)
      save(name_of_debt(part() + static_cast<int>(i) * parts()), group,
           owed.subspan(i * vector, std::min(vector, owed.size() - i * vector)));
    if (has_momentum()) save(kVelocity + std::to_string(part()), group, lanes_[group].velocity);
  }
  return all;
}

Status GradientWire::keep(Kept kept) {
  const auto origin = origin_of(kept.kind);
  if (!origin)
    return failure(Code::kInvalidArgument, "'{}' is nothing that ranks keep for later steps",
                   kept.kind);
  if (kept.kind.starts_with(kVelocity)) {
    add(kept.values, lanes_[kept.group].velocity);
    return ok_status();
  }
  if (is_alone() || origin->hash != hash_) {
    debts_.push_back({kept.group, std::move(kept.kind), std::move(kept.values)});
    return ok_status();
  }
  if (!power_sgd_.empty()) {
    const std::span<float> owed = power_sgd_[kept.group].owed();
    std::ranges::copy(std::span(kept.values).first(owed.size()), owed.begin());
    return ok_status();
  }
  // Several vectors, where elements are encoded several times.
  Lane& lane = lanes_[kept.group];
  const std::size_t begin = static_cast<std::size_t>(origin->of / parts()) * kept.values.size();
  lane.owed.resize(std::max(lane.owed.size(), begin + kept.values.size()));
  std::ranges::copy(kept.values, lane.owed.begin() + static_cast<std::ptrdiff_t>(begin));
  return lane.compression->set_errors(lane.owed);
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
  for (const Debt& debt : debts_) floats += debt.values.size();
  for (const Lane& lane : lanes_) {
    floats += 2 * lane.owed.size() + lane.velocity.size() + lane.old_velocity.size();
  }
  for (const PowerSgd& group : power_sgd_) bytes += group.bytes();
  for (const Thin& thin : thin_) bytes += thin.first.data().size() + thin.next.data().size();
  return bytes + floats * sizeof(float);
}

}  // namespace tutti::training
