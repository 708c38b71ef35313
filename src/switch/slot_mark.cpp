#include "src/switch/slot_mark.hpp"

#include <algorithm>

namespace tutti::in_network {
namespace {

/// Whether the worker may know that it is this chunk's turn.
bool in_turn(const SlotMark& other, std::uint64_t chunk, std::uint32_t slots) {
  if (chunk < slots) return true;
  return other.chunk == chunk - slots && other.stage == Stage::kComplete;
}

Refusal disagreement(const SlotMark& mark, const Packet& packet) {
  if (mark.lanes != packet.lanes) return Refusal::kLanesDiffer;
  if (mark.count != packet.count) return Refusal::kCountsDiffer;
  if (mark.call != packet.call) return Refusal::kCallsDiffer;
  const bool moves = mark.lanes == Lanes::kWords;
  if (moves && mark.has_values && !packet.values.empty()) return Refusal::kTwoSenders;
  return Refusal::kNone;
}

/// Everybody learns at once, and those who lose the packet when they repeat their contribution.
Decision refuse(SlotMark& mark, Refusal refusal, const SlotRules& rules) {
  mark.stage = Stage::kRefused;
  mark.refusal = refusal;
  return {.send = Send::kRefusal, .to = rules.all, .refusal = refusal};
}

Decision repeat(SlotMark& mark, std::uint32_t worker) {
  if (mark.stage == Stage::kOpen) return {.send = Send::kWaiting, .to = worker};
  if (mark.stage == Stage::kComplete) return {.send = Send::kResult, .to = worker};
  // A leaf waits for the switch above. One worker's repetition goes up for all; it goes up again
  // when a worker repeats that has been counted already.
  mark.owed |= worker;
  const bool again = mark.asked == 0 || (mark.asked & worker) != 0;
  mark.asked = again ? worker : mark.asked | worker;
  return {.send = again ? Send::kSum : Send::kNothing};
}

Decision join(SlotMark& mark, const Packet& packet, std::uint32_t worker, const SlotRules& rules) {
  Decision decision;
  if (!packet.values.empty()) decision.fill = mark.has_values ? Fill::kAdd : Fill::kStore;
  mark.has_values = mark.has_values || !packet.values.empty();
  mark.arrived |= worker;
  if (packet.wants) mark.wanting |= worker;
  mark.exponent = std::max(mark.exponent, packet.exponent);
  if (mark.arrived != rules.all) return decision;
  mark.stage = rules.is_leaf ? Stage::kSummed : Stage::kComplete;
  mark.last = worker;
  decision.send = rules.is_leaf ? Send::kSum : Send::kResult;
  decision.to = rules.is_leaf ? 0 : rules.all;
  decision.answers = rules.is_leaf ? 0 : worker;
  return decision;
}

}  // namespace

Decision contribute(SlotMark& mark, const SlotMark& other, const Packet& packet,
                    const SlotRules& rules) {
  const std::uint32_t worker = std::uint32_t{1} << packet.sender;
  if (mark.chunk == kNoChunk || mark.chunk < packet.chunk) {
    if (packet.chunk == kNoChunk || !in_turn(other, packet.chunk, rules.slots))
      return {.send = Send::kRefusal, .to = worker, .refusal = Refusal::kOutOfTurn};
    mark = {.chunk = packet.chunk,
            .call = packet.call,
            .exponent = packet.exponent,
            .count = packet.count,
            .lanes = packet.lanes};
  }
  if (mark.chunk > packet.chunk) return {};  // a late copy
  if (mark.stage == Stage::kRefused)
    return {.send = Send::kRefusal, .to = worker, .refusal = mark.refusal};
  if ((mark.arrived & worker) != 0) return repeat(mark, worker);
  const Refusal refusal = disagreement(mark, packet);
  if (refusal != Refusal::kNone) return refuse(mark, refusal, rules);
  return join(mark, packet, worker, rules);
}

Decision answer_from_above(SlotMark& mark, const Packet& packet, bool was_last,
                           const SlotRules& rules) {
  if (mark.chunk != packet.chunk || mark.stage != Stage::kSummed) return {};
  switch (packet.kind) {
    case PacketKind::kContribution:
      return {};
    case PacketKind::kWaiting: {
      const std::uint32_t owed = mark.owed;
      mark.owed = 0;
      return {.send = owed != 0 ? Send::kWaiting : Send::kNothing, .to = owed};
    }
    case PacketKind::kRefusal:
      return refuse(mark, packet.reason, rules);
    case PacketKind::kResult:
      break;
  }
  if (packet.left_out && mark.wanting != 0) return {};  // meant for another leaf
  if (mark.lanes != packet.lanes || mark.count != packet.count)
    return refuse(mark, Refusal::kCallsDiffer, rules);
  mark.stage = Stage::kComplete;
  mark.exponent = packet.exponent;
  mark.has_values = !packet.values.empty();
  return {.fill = mark.has_values ? Fill::kStore : Fill::kKeep,
          .send = Send::kResult,
          .to = rules.all,
          .answers = was_last ? mark.last : 0};
}

}  // namespace tutti::in_network
