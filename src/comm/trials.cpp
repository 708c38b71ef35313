#include "src/comm/trials.hpp"

#include <algorithm>
#include <chrono>

#include "src/base/clock.hpp"
#include "src/base/log.hpp"
#include "src/base/result.hpp"

namespace tutti {
namespace {

// After another way it took two calls until the caches were as a way likes them (all_to_all, 4
// MiB).
constexpr std::uint32_t kWarmUps = 2, kTriesPerTurn = 4, kCallsPerTurn = kWarmUps + kTriesPerTurn;
constexpr std::uint32_t kTimedPerTurn = kTriesPerTurn + 1;  // and the call before them
constexpr std::uint32_t kMostTurns = kMostTries / kTimedPerTurn;

/// Larger inputs, whose tries would take long, run as those of this class do.
constexpr std::uint8_t kLargestTried = 24;  // up to 16 MiB

/// Of each way. Small calls take microseconds, of which chance makes much; large ones are precious.
std::uint32_t turns_for(const CallClass& of) {
  constexpr std::uint8_t kLarge = 19;  // above 256 KiB
  return of.size < kLarge ? kMostTurns : 2;
}

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<Nanos>(Clock::now().time_since_epoch()).count());
}

/// As ranks tell each other: which class, never 0.
std::uint64_t number_of(const CallClass& of, std::size_t ways) {
  return 1 + static_cast<std::uint64_t>(of.collective) + 256 * std::uint64_t{of.size} +
         65536 * static_cast<std::uint64_t>(ways);
}

std::string micros(const std::optional<std::uint64_t>& nanos) {
  return nanos ? fmt::format("{:.1f} us", static_cast<double>(*nanos) / 1000) : "not tried";
}

}  // namespace

/// By way: two times, and what the second one is.
struct Trials::Figures {
  std::vector<std::optional<std::uint64_t>> one, other;
  std::string_view what_other_is;
};

std::string Trials::text_of(const Figures& figures, std::span<const Way> ways) {
  std::string text;
  for (std::size_t way = 0; way < ways.size(); ++way)
    text +=
        fmt::format("{}{} {} ({} {})", way == 0 ? "" : ", ", describe(ways[way]),
                    micros(figures.one[way]), micros(figures.other[way]), figures.what_other_is);
  return text;
}

/// Where in its course the next call is.
struct Trials::Place {
  std::size_t way;
  std::uint32_t turn;     ///< of that way
  std::uint32_t in_turn;  ///< the first kWarmUps are no tries
  [[nodiscard]] bool is_timed() const { return in_turn >= kCallsPerTurn - kTimedPerTurn; }
  [[nodiscard]] std::size_t number() const {
    return turn * kTimedPerTurn + in_turn - (kCallsPerTurn - kTimedPerTurn);
  }
};

Trials::Place Trials::place_of(const Course& course) {
  const std::uint32_t turn = course.calls / kCallsPerTurn;
  const auto ways = static_cast<std::uint32_t>(course.ways.size());
  return {turn % ways, turn / ways, course.calls % kCallsPerTurn};
}

Trials::Turn Trials::turn(const CallClass& of, std::span<const Way> ways) {
  const auto turn_of = [&](const Way& way, bool on_trial) -> std::optional<Turn> {
    const auto at = std::ranges::find(ways, way);
    if (at == ways.end()) return std::nullopt;
    return Turn{static_cast<std::size_t>(at - ways.begin()), on_trial, !on_trial};
  };
  if (!measures_ || ways.size() < 2) return {};
  // Now and for good: a rank that asks again, having forgotten its plan, must hear the same.
  if (of.size > kLargestTried && !decided(of)) {
    CallClass largest_tried = of;
    largest_tried.size = kLargestTried;
    decide_for(of, verdict(largest_tried));
  }
  if (const auto known = decided(of))
    return *known ? turn_of(**known, false).value_or(Turn{}) : Turn{};
  current_ = courses_.try_emplace(of).first;
  Course& course = current_->second;
  if (course.ways.empty())
    course.ways.assign(
        ways.begin(), ways.begin() + static_cast<std::ptrdiff_t>(std::min(ways.size(), kMostWays)));
  if (const auto turn = turn_of(course.ways[place_of(course).way], true)) return *turn;
  decide_for(of, std::nullopt);  // the calls of this class differ too much
  courses_.erase(current_);
  return {};
}

std::optional<Way> Trials::verdict(const CallClass& of) const {
  return measures_ ? decided(of).value_or(std::nullopt) : std::nullopt;
}

/// None: not yet. None within: that the first way stays.
std::optional<std::optional<Way>> Trials::decided(const CallClass& of) const {
  const std::scoped_lock lock(mutex_);
  if (const auto verdict = verdicts_.find(of); verdict != verdicts_.end())
    return std::make_optional<std::optional<Way>>(verdict->second);
  const std::uint64_t bytes = verdict_on(of, arrangement_).to_bytes;
  const MeasuredRange* const known = known_.find(of.collective, arrangement_, bytes);
  if (known == nullptr) return std::nullopt;
  return std::make_optional<std::optional<Way>>(known->way);
}

void Trials::decide_for(const CallClass& of, std::optional<Way> way) {
  const std::scoped_lock lock(mutex_);
  verdicts_[of] = std::move(way);
}

void Trials::begin() {
  Course& course = current_->second;
  if (const Place place = place_of(course); place.is_timed())
    course.times.tries[place.way][place.number()] = {now_ns(), 0};
}

void Trials::end(bool counts) {
  Course& course = current_->second;
  const Place place = place_of(course);
  if (place.is_timed()) {
    Try& times = course.times.tries[place.way][place.number()];
    times = counts ? Try{times.began, now_ns()} : Try{};
  }
  if (++course.calls < course.ways.size() * turns_for(current_->first) * kCallsPerTurn) return;
  course.times.of = number_of(current_->first, course.ways.size());
  due_ = current_->first;
}

Call Trials::gather() {
  told_.resize(static_cast<std::size_t>(team_.size()));
  Call call;
  call.collective = Collective::kAllGather;
  call.type = DataType::kUint64;
  call.send = &courses_.at(*due_).times;
  call.recv = told_.data();
  call.count = sizeof(TrialTimes) / sizeof(std::uint64_t);
  return call;
}

CallSignature Trials::signature_of_gather(const Call& gather) {
  CallSignature signature = signature_of(gather);
  signature.root = kNoRank;
  return signature;
}

/// Every rank comes to the same verdict from what all have told.
Status Trials::decide() {
  const auto course = courses_.find(*due_);
  TUTTI_CHECK(course != courses_.end(), "no course of {}", describe(*due_, arrangement_));
  const std::uint64_t number = course->second.times.of;
  for (Rank peer = 0; peer < team_.size(); ++peer)
    if (const std::uint64_t theirs = told_[static_cast<std::size_t>(peer)].of; theirs != number)
      return peer_error(Code::kInvalidUsage, peer,
                        "{} tried calls number {:x} while {} tried {}, number {:x}: all ranks must "
                        "make the same calls in the same order",
                        team_.member(peer).label, theirs, team_.member(team_.rank()).label,
                        describe(*due_, arrangement_), number);
  conclude(course->second, figures_of(course->second));
  courses_.erase(course);
  due_.reset();
  return ok_status();
}

/// Where ranks share a clock, what each way took since the last rank came, and since the first did;
/// else what it took the quickest rank, and the slowest.
Trials::Figures Trials::figures_of(const Course& course) const {
  const bool one_clock = team_.placement().all_mapped();
  Figures figures;
  figures.what_other_is = one_clock ? "since the first rank came" : "for the slowest rank";
  for (std::size_t way = 0; way < course.ways.size(); ++way) {
    const auto ranks_in = [&](std::size_t call) {
      std::vector<Try> ranks;
      for (const TrialTimes& times : told_) ranks.push_back(times.tries[way][call]);
      return ranks;
    };
    std::vector<std::optional<std::uint64_t>> one, other;
    for (std::size_t call = 0; call < turns_for(*due_) * kTimedPerTurn; ++call) {
      if (call % kTimedPerTurn == 0) continue;  // no try
      const std::vector<Try> ranks = ranks_in(call);
      one.push_back(one_clock ? since_last_came(ranks) : shortest(ranks));
      other.push_back(one_clock ? since_first_came(ranks, ranks_in(call - 1)) : longest(ranks));
    }
    figures.one.push_back(typical(one));
    figures.other.push_back(typical(other));
  }
  return figures;
}

/// Ranks that come late for reasons of their own spoil one figure, those that share CPUs the other:
/// what takes the place of the guess is to be faster by both.
void Trials::conclude(const Course& course, const Figures& figures) {
  std::optional<std::size_t> best = fastest(figures.one);
  const std::optional<std::size_t> other = fastest(figures.other);
  if (best && best != other) best = other ? std::optional<std::size_t>(0) : std::nullopt;
  std::optional<Way> verdict;
  if (best) verdict = course.ways[*best];
  decide_for(*due_, verdict);
  const bool speaks = team_.rank() == 0;
  if (speaks)
    log_info(Subsystem::kTuning, fmt::format("[rank 0/{}]", team_.size()), "{}: {}: {}",
             describe(*due_, arrangement_), text_of(figures, course.ways),
             best ? describe(*verdict) : "buffers were mapped, so nothing was measured");
  if (!best) return;
  MeasuredRange range = verdict_on(*due_, arrangement_, *verdict, seconds_since_1970());
  range.nanos = std::min(*figures.one[*best], kMostMeasured);
  for (std::size_t way = 0; way < figures.one.size(); ++way) {
    if (way == *best || !figures.one[way]) continue;
    const std::uint64_t nanos = std::min(*figures.one[way], kMostMeasured);
    if (range.next_nanos == 0 || nanos < range.next_nanos) range.next_nanos = nanos;
  }
  store_.add(range, speaks);
}

}  // namespace tutti
