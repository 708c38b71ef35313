#include "src/switch/slot_pool.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "src/switch/combine.hpp"

namespace tutti::in_network {
namespace {

std::uint32_t bits_of(unsigned workers) {
  return workers >= kMostWorkers ? ~std::uint32_t{0} : (std::uint32_t{1} << workers) - 1;
}

void fill(Fill how, const Packet& packet, std::array<std::byte, kChunkBytes>& values) {
  const auto sums = std::span(values).first(packet.values.size());
  if (how == Fill::kStore) std::memcpy(sums.data(), packet.values.data(), sums.size());
  if (how == Fill::kAdd) combine(packet.lanes, sums, packet.values);
}

Packet packet_of(const SlotMark& mark) {
  return {.lanes = mark.lanes,
          .chunk = mark.chunk,
          .count = mark.count,
          .exponent = mark.exponent,
          .call = mark.call};
}

}  // namespace

SlotPool::SlotPool(std::vector<Slot*> slots, unsigned workers, PoolRole role)
    : slots_(std::move(slots)),
      rules_{.slots = static_cast<std::uint32_t>(slots_.size()),
             .all = bits_of(workers),
             .is_leaf = role == PoolRole::kLeaf} {
  for (Slot* const slot : slots_) slot->marks = {};
}

unsigned SlotPool::workers() const { return static_cast<unsigned>(std::popcount(rules_.all)); }

SlotPool::Place SlotPool::place_of(std::uint64_t chunk) const {
  Slot& slot = *slots_[slot_of(chunk, rules_.slots)];
  const unsigned version = version_of(chunk, rules_.slots);
  return {slot.marks[version], slot.marks[1 - version], slot.values[version]};
}

SlotPool::Answer SlotPool::contribute(const Packet& packet) {
  const Place place = place_of(packet.chunk);
  const Decision decision = in_network::contribute(place.mark, place.other, packet, rules_);
  fill(decision.fill, packet, place.values);
  return answer(place, decision, packet);
}

SlotPool::Answer SlotPool::answer_from_above(const Packet& packet, std::uint8_t own) {
  const Place place = place_of(packet.chunk);
  const bool was_last = packet.kind == PacketKind::kResult && (packet.workers >> own & 1) != 0;
  const Decision decision = in_network::answer_from_above(place.mark, packet, was_last, rules_);
  fill(decision.fill, packet, place.values);
  return answer(place, decision, packet);
}

SlotPool::Answer SlotPool::answer(const Place& place, const Decision& decision,
                                  const Packet& packet) const {
  Answer answer{.send = decision.send, .to = decision.to, .packet = packet_of(place.mark)};
  const std::span<const std::byte> values =
      std::span(place.values).first(place.mark.count * width_of(place.mark.lanes));
  Packet& out = answer.packet;
  switch (decision.send) {
    case Send::kNothing:
      break;
    case Send::kResult:
      out.kind = PacketKind::kResult;
      out.workers = decision.answers;
      if (place.mark.has_values) out.values = values;
      answer.without_values = decision.to & ~place.mark.wanting;
      break;
    case Send::kSum:
      out.kind = PacketKind::kContribution;
      if (place.mark.has_values) out.values = values;
      out.wants = place.mark.wanting != 0;
      break;
    case Send::kWaiting:
      out.kind = PacketKind::kWaiting;
      out.workers = rules_.all & ~place.mark.arrived;
      if (packet.kind == PacketKind::kWaiting) {  // of the switch above: its workers are switches
        out.workers = packet.workers;
        out.level = static_cast<std::uint8_t>(std::min(packet.level + 1, 255));
      }
      break;
    case Send::kRefusal:
      out.kind = PacketKind::kRefusal;
      out.chunk = packet.chunk;
      out.reason = decision.refusal;
      break;
  }
  return answer;
}

}  // namespace tutti::in_network
