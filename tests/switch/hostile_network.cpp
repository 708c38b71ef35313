#include "tests/switch/hostile_network.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/switch/packet.hpp"

namespace tutti::in_network {
namespace {

constexpr std::size_t kRemembered = 32;

}  // namespace

void HostileNetwork::push(Event event) {
  event.order = ++order_;
  events_.push(std::move(event));
}

std::optional<Event> HostileNetwork::next() {
  if (events_.empty()) return std::nullopt;
  Event event = events_.top();
  events_.pop();
  now_ = std::max(now_, event.at);
  return event;
}

void HostileNetwork::send(NodeId from, NodeId to, std::span<const std::byte> bytes) {
  auto packet = std::make_shared<const SimulatedBytes>(bytes.begin(), bytes.end());
  if (faults_.replays != 0) remember({.to = to, .from = from, .bytes = packet});
  if (happens(faults_.inventions))
    deliver(from, to, std::make_shared<const SimulatedBytes>(invented(*packet)));
  if (happens(faults_.replays)) {
    const Event& old = past_[random_() % past_.size()];
    const Event& other = past_[random_() % past_.size()];
    deliver(old.from, random_() % 4 == 0 ? other.to : old.to, old.bytes);
  }
  if (happens(faults_.copies)) deliver(from, to, packet);
  if (happens(faults_.loss)) return;
  if (happens(faults_.damage)) packet = std::make_shared<const SimulatedBytes>(damaged(*packet));
  deliver(from, to, std::move(packet));
}

void HostileNetwork::deliver(NodeId from, NodeId to, std::shared_ptr<const SimulatedBytes> bytes) {
  const std::int64_t most = faults_.spread * faults_.delay.count();
  Nanos delay = faults_.delay;
  if (most > 0)
    delay += Nanos(static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most)));
  if (happens(faults_.late)) delay *= 100;
  push({.at = now_ + delay,
        .kind = Event::Kind::kPacket,
        .to = to,
        .from = from,
        .bytes = std::move(bytes)});
}

void HostileNetwork::remember(const Event& event) {
  ++sent_;
  if (past_.size() < kRemembered) return past_.push_back(event);
  const std::uint64_t place = random_() % sent_;  // each packet stays with equal chances
  if (place < kRemembered) past_[place] = event;
}

SimulatedBytes HostileNetwork::damaged(SimulatedBytes bytes) {
  if (random_() % 4 == 0) {
    bytes.resize(random_() % bytes.size());
    return bytes;
  }
  for (std::uint64_t flips = 1 + random_() % 4; flips > 0; --flips) {
    // Mostly in the header, where it matters most.
    const std::size_t span = random_() % 2 == 0 ? kPacketHeaderBytes : bytes.size();
    bytes[random_() % span] ^= static_cast<std::byte>(1U << random_() % 8);
  }
  return bytes;
}

/// By somebody who knows everything but the key.
SimulatedBytes HostileNetwork::invented(const SimulatedBytes& like) {
  SimulatedBytes bytes = like;
  if (random_() % 4 == 0) {  // a refusal of the session, which needs no key
    Packet packet;
    if (parse(bytes, packet) != Flaw::kNone) return bytes;
    PacketBytes room{};
    const Packet refusal{.kind = PacketKind::kRefusal,
                         .session = packet.session,
                         .chunk = packet.chunk,
                         .reason = Refusal::kUnknownSession};
    const auto built = build(refusal, room);
    return {built.begin(), built.end()};
  }
  const std::size_t field = 4 + random_() % (kPacketHeaderBytes - 4);
  bytes[field] = static_cast<std::byte>(random_());
  for (std::size_t i = bytes.size() - kMacBytes; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(random_());
  return bytes;
}

}  // namespace tutti::in_network
