#include "src/switch/data_plane.hpp"

#include <algorithm>

namespace tutti::in_network {

void DataPlane::take(std::span<const std::byte> bytes, TimePoint now, PacketSink& sink) {
  Packet packet;
  if (parse(bytes, packet) != Flaw::kNone) {
    ++counts_.flawed;
    return;
  }
  const bool is_from_worker = packet.kind == PacketKind::kContribution;
  Session* const session =
      is_from_worker ? sessions_.find(packet.session) : sessions_.find_below(packet.session);
  if (session == nullptr) {
    ++counts_.unknown;
    if (is_from_worker) refuse_unknown(packet, sink);
    return;
  }
  if (!session->accepts(packet, bytes, now)) {
    ++counts_.unauthentic;
    return;
  }
  ++counts_.taken;
  if (is_from_worker) sink.heard(*session, packet.sender);
  SlotPool& pool = session->pool();
  send(*session,
       is_from_worker ? pool.contribute(packet)
                      : pool.answer_from_above(packet, session->above()->worker),
       sink);
}

void DataPlane::send(Session& session, const SlotPool::Answer& answer, PacketSink& sink) {
  switch (answer.send) {
    case Send::kNothing:
      return;
    case Send::kSum:
      return sink.to_above(session, session.seal_for_above(answer.packet, room_));
    case Send::kResult:
    case Send::kWaiting:
    case Send::kRefusal:
      break;
  }
  const std::uint32_t with_values = answer.to & ~answer.without_values;
  if (with_values != 0) sink.to_workers(session, with_values, session.seal(answer.packet, room_));
  if (answer.without_values == 0) return;
  Packet brief = answer.packet;
  brief.values = {};
  brief.left_out = !answer.packet.values.empty();
  sink.to_workers(session, answer.without_values, session.seal(brief, room_));
}

void DataPlane::refuse_unknown(const Packet& packet, PacketSink& sink) {
  const Packet refusal{.kind = PacketKind::kRefusal,
                       .lanes = packet.lanes,
                       .session = packet.session,
                       .chunk = packet.chunk,
                       .reason = Refusal::kUnknownSession};
  const std::span<std::byte> bytes = build(refusal, room_);
  std::ranges::fill(bytes.last(kMacBytes), std::byte{0});
  sink.reply(bytes);
}

}  // namespace tutti::in_network
