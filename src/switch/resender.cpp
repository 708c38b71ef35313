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
  timeout_ = std::clamp(*usual_ + 4 * deviation_, limits_.least, limits_.greatest);
}

Resender::Resender(std::uint32_t slots, const TimeoutLimits& limits)
    : entries_(slots), round_trips_(limits) {}

void Resender::sent(std::uint32_t slot, TimePoint now) {
  entries_[slot] = {};
  append(slot, now);
}

void Resender::sent_again(std::uint32_t slot, TimePoint now) {
  remove(slot);
  Entry& entry = entries_[slot];
  entry.is_repeated = true;
  const bool is_over = now >= end_of(entry);
  const bool is_quiet = results_ == entry.results;
  if (is_over && is_quiet && entry.expired + 1 < kLists) ++entry.expired;
  append(slot, now);
}

void Resender::answered(std::uint32_t slot, TimePoint now, bool was_last) {
  remove(slot);
  ++results_;
  result_at_ = now;
  const Entry& entry = entries_[slot];
  if (!entry.is_repeated) {
    was_last ? round_trips_.sample(now - entry.at) : round_trips_.bound(now - entry.at);
    answered_order_ = std::max(answered_order_, entry.order);
    unmeasured_ = 0;
  } else if (++unmeasured_ > entries_.size()) {
    round_trips_.double_timeout();
    unmeasured_ = 0;
  }
}

std::optional<std::uint32_t> Resender::due(TimePoint now) const {
  const std::uint32_t slot = next();
  if (slot == kNobody || now < deadline_of(entries_[slot])) return std::nullopt;
  return slot;
}

std::optional<TimePoint> Resender::deadline() const {
  const std::uint32_t slot = next();
  if (slot == kNobody) return std::nullopt;
  return deadline_of(entries_[slot]);
}

TimePoint Resender::deadline_of(const Entry& entry) const {
  const bool is_overtaken = answered_order_ >= entry.order + kOvertaken;
  if (!is_overtaken || !round_trips_.usual()) return end_of(entry);
  return std::min(end_of(entry), entry.at + *round_trips_.usual());
}

std::uint32_t Resender::next() const {
  std::uint32_t first = kNobody;
  for (const List& list : lists_) {
    if (list.oldest == kNobody) continue;
    if (first == kNobody || deadline_of(entries_[list.oldest]) < deadline_of(entries_[first]))
      first = list.oldest;
  }
  return first;
}

void Resender::append(std::uint32_t slot, TimePoint now) {
  Entry& entry = entries_[slot];
  List& list = lists_[entry.expired];
  entry.at = now;
  entry.order = ++sendings_;
  entry.results = results_;
  entry.before = list.newest;
  entry.after = kNobody;
  (list.newest == kNobody ? list.oldest : entries_[list.newest].after) = slot;
  list.newest = slot;
  ++waiting_;
}

void Resender::remove(std::uint32_t slot) {
  const Entry& entry = entries_[slot];
  List& list = lists_[entry.expired];
  (entry.before == kNobody ? list.oldest : entries_[entry.before].after) = entry.after;
  (entry.after == kNobody ? list.newest : entries_[entry.after].before) = entry.before;
  --waiting_;
}

}  // namespace tutti::in_network
