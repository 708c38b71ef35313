#include "src/exec/store_choice.hpp"

#include <algorithm>

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

double count(Nanos time) { return static_cast<double>(std::max<Nanos::rep>(time.count(), 1)); }

}  // namespace

StoreChoice::StoreChoice(StreamingStores first, bool may_stream_output) {
  for (const bool output : {false, true})
    for (const bool peers : {false, true})
      if (may_stream_output || output == first.output) choices_.push_back({{output, peers}});
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

}  // namespace tutti::exec
