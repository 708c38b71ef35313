#include "src/exec/store_choice.hpp"

#include <algorithm>
#include <bit>

namespace tutti::exec {
namespace {

/// Calls of a cycle. Every kBetween-th of them begins a window of kWindow timed calls. In the first
/// window the best runs; then each choice has one, and is tried in the first kTrial calls of it. So
/// whoever makes few calls tries nothing.
constexpr std::uint64_t kCycle = 128, kBetween = 24, kWindow = 6, kTrial = 4;
static_assert(4 * kBetween + kWindow <= kCycle, "four choices have their windows");
/// A choice that keeps losing is tried in every 2^kMostLosses-th cycle.
constexpr unsigned kMostLosses = 5;
/// What is better by less is not better.
constexpr double kNoise = 0.97;
/// A trial whose first call is so much worse is over, and counts as two losses.
constexpr double kHopeless = 3;
/// If the best takes so many times as long as in the last cycle, the machine has changed.
constexpr double kChanged = 1.5;

/// Ranks that store and ranks that load know by the number of a cycle what is tried in it.
bool is_common_trial(std::uint64_t cycle) {
  constexpr std::uint64_t kEvery = 8;
  return cycle < kEvery ? cycle == 0 || std::has_single_bit(cycle) : cycle % kEvery == 0;
}

double count(Nanos time) { return static_cast<double>(std::max<Nanos::rep>(time.count(), 1)); }

bool is_known(const TimesByStores& times) { return times[0].count() > 0 && times[1].count() > 0; }

/// Whether to stream: as before, unless the other way is better by more than noise.
bool streams(bool before, const TimesByStores& times) {
  const double ratio = count(times[1]) / count(times[0]);
  return before ? ratio < 1 / kNoise : ratio < kNoise;
}

}  // namespace

StoreChoice::StoreChoice(StreamingStores first, bool may_stream_output, StoreRole role)
    : role_(role) {
  for (const bool output : {false, true})
    for (const bool peers : {false, true})
      if (may_stream_output || output == first.output)
        choices_.push_back({{role == StoreRole::kStores ? first.output : output, peers}});
  while (choices_[best_].stores != first) ++best_;
}

bool StoreChoice::is_tried(std::size_t choice) const {
  const std::uint64_t cycle = calls_ / kCycle;
  return choice != best_ && best_samples_ >= kSamples &&
         cycle % (std::uint64_t{1} << choices_[choice].losses) == 0;
}

StoreChoice::Turn StoreChoice::begin() {
  const std::uint64_t call = calls_ % kCycle;
  const std::uint64_t window = call / kBetween, in_window = call % kBetween;
  running_ = best_;
  if (role_ != StoreRole::kBoth) return begin_in_common(window, in_window);
  const bool timed = window <= choices_.size() && in_window < kWindow;
  if (window >= 1 && timed) {
    const std::size_t choice = window - 1;
    if (in_window == 0) {
      if (window == 1) look_for_changes();
      trial_least_ = {};
      trial_is_over_ = !is_tried(choice);
    }
    if (in_window < kTrial && !trial_is_over_) running_ = choice;
  }
  ++calls_;
  return {choices_[running_].stores, timed};
}

Nanos StoreChoice::best_time() const {
  return *std::min_element(best_times_.begin(), best_times_.end());
}

void StoreChoice::look_for_changes() {
  if (best_samples_ < kSamples) return;
  const Nanos now = best_time();
  if (usual_.count() > 0 && count(now) > kChanged * count(usual_))
    for (Choice& choice : choices_) choice.losses = 0;
  usual_ = now;
}

void StoreChoice::end(Nanos time) {
  if (role_ != StoreRole::kBoth) return end_in_common(time);
  if (running_ == best_) {
    best_times_[best_samples_++ % kSamples] = time;
    return;
  }
  const std::uint64_t in_window = (calls_ - 1) % kCycle % kBetween;
  if (in_window == 0) {
    if (count(time) > kHopeless * count(best_time())) judge(kHopeless);
    return;
  }
  trial_least_ = trial_least_.count() == 0 ? time : std::min(trial_least_, time);
  if (in_window == kTrial - 1) judge(count(trial_least_) / count(best_time()));
}

/// Of the choice on trial: its time by that of the best.
void StoreChoice::judge(double ratio) {
  trial_is_over_ = true;
  unsigned& losses = choices_[running_].losses;
  if (ratio >= kNoise) {
    losses = std::min(losses + (ratio >= kHopeless ? 2 : 1), kMostLosses);
    return;
  }
  choices_[best_].losses = 1;
  losses = 0;
  best_ = running_;
  best_times_.fill(trial_least_);
  usual_ = trial_least_;
}

// --- ranks that only store, and ranks that only load ---

/// All choices run, also the best, since the other ranks may know another one as the best.
StoreChoice::Turn StoreChoice::begin_in_common(std::uint64_t window, std::uint64_t in_window) {
  const bool tries = is_common_trial(calls_ / kCycle) && window >= 1 && window <= choices_.size() &&
                     in_window < kTrial;
  if (tries) running_ = window - 1;
  if (tries && window == 1 && in_window == 0) by_peers_ = by_output_ = {};
  ++calls_;
  return {choices_[running_].stores, tries};
}

void StoreChoice::end_in_common(Nanos time) {
  const std::uint64_t call = (calls_ - 1) % kCycle;
  if (call % kBetween == 0) return;
  const StreamingStores stores = choices_[running_].stores;
  for (Nanos* const least : {&by_peers_[stores.peers], &by_output_[stores.output]})
    if (least->count() == 0 || time < *least) *least = time;
  // Which stores of the peers are better is theirs to say.
  if (!ends_common_trial() || !is_known(by_output_)) return;
  StreamingStores better = choices_[best_].stores;
  better.output = streams(better.output, by_output_);
  choose(better);
}

/// Whether the last call was the last one of the last window.
bool StoreChoice::ends_common_trial() const {
  const std::uint64_t call = (calls_ - 1) % kCycle;
  return role_ == StoreRole::kLoads && call / kBetween == choices_.size() &&
         call % kBetween == kTrial - 1;
}

void StoreChoice::choose(StreamingStores stores) {
  for (std::size_t choice = 0; choice < choices_.size(); ++choice)
    if (choices_[choice].stores == stores) best_ = choice;
}

std::optional<TimesByStores> StoreChoice::advice() const {
  if (!ends_common_trial() || !is_known(by_peers_)) return std::nullopt;
  return by_peers_;
}

bool StoreChoice::asks() const {
  return role_ == StoreRole::kStores && calls_ > 0 && calls_ % kCycle == 0 &&
         is_common_trial(calls_ / kCycle - 1);
}

void StoreChoice::take_advice(const TimesByStores& loads) {
  if (!is_known(loads) || !is_known(by_peers_)) return;
  StreamingStores better = choices_[best_].stores;
  better.peers = streams(better.peers, {loads[0] + by_peers_[0], loads[1] + by_peers_[1]});
  choose(better);
}

}  // namespace tutti::exec
