// Feeds a switch with two sessions, one of them a leaf's, with packets that members may send: any
// fields, the MACs right. Whatever they do, what the switch sends is a packet, to workers of the
// session.
//
// The input is a program of small records, whose fields come from a few values that collide often.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "src/base/bytes.hpp"
#include "src/switch/data_plane.hpp"

namespace tutti::in_network {
namespace {

constexpr std::array<std::uint16_t, 4> kCounts{0, 1, 7, 0xffff};

struct CheckingSink final : PacketSink {
  void heard(const Session& /*session*/, std::uint8_t /*worker*/) override {}
  void to_workers(const Session& session, std::uint32_t workers,
                  std::span<const std::byte> bytes) override {
    if (workers == 0 || (workers & ~0b111U) != 0) std::abort();
    check(bytes, session.id(), true);
  }
  void to_above(const Session& session, std::span<const std::byte> bytes) override {
    check(bytes, session.above()->session, false);
  }
  void reply(std::span<const std::byte> bytes) override { check(bytes, 9, true); }
  static void check(std::span<const std::byte> bytes, std::uint64_t session, bool is_down) {
    Packet packet;
    if (parse(bytes, packet) != Flaw::kNone || packet.session != session) std::abort();
    if ((packet.sender == kTheSwitch) != is_down) std::abort();
  }
};

Packet packet_from(ByteReader& in) {
  const auto pick = in.get<std::uint8_t>();
  Packet packet;
  packet.kind = static_cast<PacketKind>(1 + pick % 4);
  const bool from_worker = packet.kind == PacketKind::kContribution;
  packet.sender = from_worker ? static_cast<std::uint8_t>(pick >> 2 & 3) : kTheSwitch;
  const auto flags = in.get<std::uint8_t>();
  // Sessions 1 and 2 are open here, 3 is the one above 2, 9 is nobody's.
  constexpr std::array<std::uint64_t, 4> kSessions{1, 2, 2, 9};
  packet.session = from_worker ? kSessions[pick >> 4 & 3] : 3;
  packet.lanes = static_cast<Lanes>(((flags & 15) + 5 * (pick >> 6)) % kLanes);
  packet.chunk = in.get<std::uint8_t>() % 16;
  if (packet.chunk == 15) packet.chunk = in.get<std::uint64_t>();
  const std::size_t most = most_values(packet.lanes);
  packet.count = static_cast<std::uint16_t>(std::min<std::size_t>(kCounts[flags >> 4 & 3], most));
  packet.exponent = in.get<std::int16_t>();
  packet.wants = from_worker && (flags & 64) != 0;
  packet.call = pick >> 7;
  if (packet.kind == PacketKind::kRefusal) packet.reason = Refusal::kLanesDiffer;
  if (packet.kind == PacketKind::kWaiting) packet.workers = flags;
  static const std::array<std::byte, kChunkBytes> values{std::byte{3}, std::byte{200}};
  const bool may = from_worker || packet.kind == PacketKind::kResult;
  if (may && (flags & 128) != 0)
    packet.values = std::span(values).first(packet.count * width_of(packet.lanes));
  packet.left_out =
      packet.kind == PacketKind::kResult && packet.values.empty() && (flags & 64) != 0;
  return packet;
}

}  // namespace
}  // namespace tutti::in_network

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  using namespace tutti::in_network;
  ByteReader in(std::as_bytes(std::span(data, size)));
  Sessions sessions({.slots = 8, .sessions = 2, .least_slots = 4});
  const PacketKey key{std::byte{1}};
  if (!sessions.open({.id = 1, .key = key, .workers = 3, .slots = 2}, {})) std::abort();
  const Above above{.session = 3, .key = key, .worker = 5};
  if (!sessions.open({.id = 2, .key = key, .workers = 3, .slots = 2, .above = above}, {}))
    std::abort();
  DataPlane plane(sessions);
  CheckingSink sink;
  Sealer sealer(key);
  PacketBytes room;
  while (in.left() > 0) {
    const Packet packet = packet_from(in);
    if (packet.kind == PacketKind::kContribution && packet.session == 9 && (packet.call & 1) != 0) {
      plane.take(in.bytes(std::min<std::size_t>(in.left(), 100)), {}, sink);  // no packet
      continue;
    }
    plane.take(sealer.seal(packet, room), {}, sink);
  }
  return 0;
}
