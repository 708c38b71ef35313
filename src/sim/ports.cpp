#include "src/sim/ports.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace tutti::sim {

Ports::Ports(std::int32_t ranks, std::uint32_t limit, const Traffic& traffic)
    : limit_(limit),
      pairs_(traffic.pairs()),
      in_flight_(pairs_.size(), 0),
      senders_(static_cast<std::size_t>(ranks)),
      receivers_(static_cast<std::size_t>(ranks)) {
  for (const Message& message : traffic.messages()) {
    const PairId pair = traffic.channels()[message.channel].pair;
    senders_[sender(pair)].turns.push_back(message.turn);
    receivers_[receiver(pair)].turns.push_back(message.turn);
  }
  for (std::vector<Side>* sides : {&senders_, &receivers_})
    for (Side& side : *sides) std::sort(side.turns.begin(), side.turns.end());
}

void Ports::mark_changed(Side& side) {
  if (std::exchange(side.changed, true)) return;
  changed_.push_back(&side);
}

void Ports::wait(const Waiting& message) {
  senders_[sender(message.pair)].waiting.push_back(message);
  receivers_[receiver(message.pair)].waiting.push_back(message);
  mark_changed(senders_[sender(message.pair)]);
}

void Ports::close(PairId pair) {
  if (--in_flight_[pair] != 0) return;
  for (Side* side : {&senders_[sender(pair)], &receivers_[receiver(pair)]}) {
    --side->used;
    mark_changed(*side);
  }
}

bool Ports::can_open(const Waiting& message) const {
  const Side& from = senders_[sender(message.pair)];
  const Side& to = receivers_[receiver(message.pair)];
  if (!from.is_its_turn(message.turn) || !to.is_its_turn(message.turn)) return false;
  return in_flight_[message.pair] != 0 || (from.used < limit_ && to.used < limit_);
}

void Ports::open(const Waiting& message) {
  const bool is_first = in_flight_[message.pair]++ == 0;
  for (Side* side : {&senders_[sender(message.pair)], &receivers_[receiver(message.pair)]}) {
    ++side->started;
    if (is_first) ++side->used;
    std::erase_if(side->waiting,
                  [&](const Waiting& other) { return other.channel == message.channel; });
    mark_changed(*side);
  }
}

void Ports::grant(std::vector<ChannelId>& granted) {
  const auto order = [&](const Waiting& message) {
    return std::tuple(message.turn, sender(message.pair), message.channel);
  };
  while (!changed_.empty()) {
    candidates_.clear();
    for (Side* side : changed_) {
      side->changed = false;
      for (const Waiting& message : side->waiting)
        if (can_open(message)) candidates_.push_back(message);
    }
    changed_.clear();
    std::sort(candidates_.begin(), candidates_.end(),
              [&](const Waiting& a, const Waiting& b) { return order(a) < order(b); });
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      const Waiting& message = candidates_[i];
      if (i > 0 && candidates_[i - 1].channel == message.channel) continue;
      if (!can_open(message)) continue;
      open(message);
      granted.push_back(message.channel);
    }
  }
}

}  // namespace tutti::sim
