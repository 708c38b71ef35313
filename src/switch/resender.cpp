#include "src/switch/resender.hpp"

#include <algorithm>

namespace tutti::in_network {

void RoundTrips::sample(Nanos round_trip) {
  round_trip = std::max(round_trip, Nanos(1));
  if (!usual_) {
    usual_ = round_trip;
    deviation_ = round_trip / 2;
  } else {
    const Nanos error = *usual_ > round_trip ? *usual_ - round_trip : round_trip - *usual_;
    deviation_ += (error - deviation_) / 4;
    *usual_ += (round_trip - *usual_) / 8;
  }
  base_ = std::clamp(*usual_ + 4 * deviation_, limits_.least, limits_.greatest);
  doublings_ = 0;
}

void RoundTrips::back_off(std::uint32_t times) {
  if (times > doublings_ && timeout() < limits_.greatest) ++doublings_;
}

Nanos RoundTrips::timeout() const {
  constexpr std::uint32_t kMostDoublings = 20;  // beyond any sensible limits
  return std::min(base_ * (std::int64_t{1} << std::min(doublings_, kMostDoublings)),
                  limits_.greatest);
}

Resender::Resender(std::uint32_t slots, const TimeoutLimits& limits)
    : entries_(slots), round_trips_(limits) {}

void Resender::sent(std::uint32_t slot, TimePoint now) {
  entries_[slot] = {};
  append(slot, now);
}

void Resender::sent_again(std::uint32_t slot, TimePoint now) {
  Entry& entry = entries_[slot];
  ++entry.times;
  if (now >= entry.at + round_trips_.timeout()) round_trips_.back_off(++entry.expired);
  remove(slot);
  append(slot, now);
}

void Resender::answered(std::uint32_t slot, TimePoint now) {
  const Entry& entry = entries_[slot];
  if (entry.times == 0) {
    round_trips_.sample(now - entry.at);
    answered_order_ = std::max(answered_order_, entry.order);
  }
  remove(slot);
}

std::optional<std::uint32_t> Resender::due(TimePoint now) const {
  const std::optional<TimePoint> when = deadline();
  if (!when || now < *when) return std::nullopt;
  return oldest_;
}

std::optional<TimePoint> Resender::deadline() const {
  if (is_idle()) return std::nullopt;
  const Entry& oldest = entries_[oldest_];
  Nanos patience = round_trips_.timeout();
  if (is_overtaken(oldest) && round_trips_.usual())
    patience = std::min(patience, *round_trips_.usual());
  return oldest.at + patience;
}

void Resender::append(std::uint32_t slot, TimePoint now) {
  Entry& entry = entries_[slot];
  entry.at = now;
  entry.order = ++sendings_;
  entry.before = newest_;
  entry.after = kNobody;
  (newest_ == kNobody ? oldest_ : entries_[newest_].after) = slot;
  newest_ = slot;
}

void Resender::remove(std::uint32_t slot) {
  const Entry& entry = entries_[slot];
  (entry.before == kNobody ? oldest_ : entries_[entry.before].after) = entry.after;
  (entry.after == kNobody ? newest_ : entries_[entry.after].before) = entry.before;
}

}  // namespace tutti::in_network
