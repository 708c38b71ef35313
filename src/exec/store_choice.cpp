#include "src/exec/store_choice.hpp"

#include <algorithm>

namespace tutti::exec {
namespace {

/// Before the first trial, and between the first trials of different choices.
constexpr std::uint64_t kBetweenFirstTrials = 20;
/// Calls until a choice as good as the best is tried again; up to kLongestPause times as many for
/// worse ones.
constexpr double kBetweenTrials = 128;
constexpr double kLongestPause = 32;
/// What is better by less is not better.
constexpr double kNoise = 0.97;
/// A trial whose first call is so much worse is over.
constexpr double kHopeless = 3;
constexpr std::uint64_t kNever = ~std::uint64_t{0};

std::size_t index_of(StreamingStores stores) {
  return (stores.output ? 1U : 0U) | (stores.peers ? 2U : 0U);
}
StreamingStores stores_of(std::size_t index) { return {(index & 1) != 0, (index & 2) != 0}; }

double count(Nanos time) { return static_cast<double>(std::max<Nanos::rep>(time.count(), 1)); }

}  // namespace

StoreChoice::StoreChoice(StreamingStores first, bool may_stream_output)
    : best_(index_of(first)), running_(best_) {
  for (std::size_t choice = 0, turn = 0; choice < kChoices; ++choice) {
    const bool legal = may_stream_output || !stores_of(choice).output;
    due_[choice] = legal && choice != best_ ? ++turn * kBetweenFirstTrials : kNever;
  }
}

StreamingStores StoreChoice::best() const { return stores_of(best_); }

StreamingStores StoreChoice::begin() {
  ++calls_;
  if (trial_calls_ > 0) return stores_of(running_);
  running_ = best_;
  if (best_samples_ < kSamples) return best();
  const auto due = std::min_element(due_.begin(), due_.end());
  if (*due <= calls_) running_ = static_cast<std::size_t>(due - due_.begin());
  return stores_of(running_);
}

void StoreChoice::end(Nanos time) {
  if (running_ == best_) {
    best_times_[best_samples_++ % kSamples] = time;
    return;
  }
  const double best = count(*std::min_element(best_times_.begin(), best_times_.end()));
  const bool first = trial_calls_++ == 0;
  const bool hopeless = first && count(time) > kHopeless * best;
  if (!first) trial_least_ = trial_calls_ == 2 ? time : std::min(trial_least_, time);
  if (trial_calls_ <= kSamples && !hopeless) return;

  trial_calls_ = 0;
  const double ratio = count(hopeless ? time : trial_least_) / best;
  const auto pause = [](double times) {
    return static_cast<std::uint64_t>(kBetweenTrials * std::min(times, kLongestPause));
  };
  due_[running_] = calls_ + pause(ratio * ratio);
  if (ratio >= kNoise) return;
  due_[best_] = calls_ + pause(1);
  due_[running_] = kNever;
  best_ = running_;
  best_samples_ = 0;
}

}  // namespace tutti::exec
