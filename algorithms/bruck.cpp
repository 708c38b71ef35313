// Bruck: all-to-all and all-gather in ceil(log2 n) rounds.
//
// Words: in the all-to-all, slot i of rank r begins with r's block for rank r+i: a parcel that has
// i places to go. Rounds have distances d = 1, 2, 4, ... In each, every parcel whose i has that bit
// set moves d places and stays in slot i. A parcel has arrived after the round of its highest bit;
// slot i then holds the block of rank r-i. Slots that travel together are packed into one message.
// In the all-gather, a round of distance d fetches up to d blocks from rank r+d, which holds blocks
// r+d, r+d+1, ... They land in place. A run that wraps around is two messages.
//
//   collective    rounds   bytes sent by each rank
//   all_to_all    L        (S/n) * the set bits of 1 .. n-1 (n/2 log2 n if n is a power of two)
//   all_gather    L        S (n-1)/n                                     with L = ceil(log2 n)
//
// Wins: the all-to-all for blocks of a few bytes on many ranks, where n-1 messages cost more than
// moving each byte log2(n)/2 times. The all-gather for small and medium blocks.
//
// Source: Bruck et al., "Efficient algorithms for all-to-all communications in multiport
// message-passing systems" (1997).
#include <algorithm>
#include <optional>

#include "algorithms/algorithms.hpp"
#include "algorithms/member.hpp"

namespace tutti::algorithms {
namespace bruck_parts {

/// The slots that move in the round of `distance`, ascending.
std::vector<std::uint32_t> moving_slots(std::uint32_t ranks, std::uint32_t distance) {
  std::vector<std::uint32_t> slots;
  for (std::uint32_t slot = distance; slot < ranks; ++slot) {
    if ((slot & distance) != 0) slots.push_back(slot);
  }
  return slots;
}

/// The chunks as one set, where they lie at equal distances in ascending order of one space.
std::optional<ChunkSet> as_one_set(std::span<const ChunkSet> chunks) {
  ChunkSet set = chunks.front();
  if (chunks.size() == 1) return set;
  if (chunks[1].first <= set.first) return std::nullopt;
  set.stride = chunks[1].first - set.first;
  set.count = static_cast<std::uint32_t>(chunks.size());
  for (std::uint32_t i = 0; i < set.count; ++i) {
    if (chunks[i].space != set.space || chunks[i].first != set.at(i)) return std::nullopt;
  }
  return set;
}

/// The chunks side by side: as they are if they form a set, else copied to fresh scratch.
ChunkSet pack(Member& me, std::span<const ChunkSet> chunks) {
  if (const auto set = as_one_set(chunks)) return *set;
  ChunkSet packed;
  for (const ChunkSet chunk : chunks) {
    const ChunkSet place = me.program.scratch(chunk);
    me.program.copy(chunk, place);
    if (packed.count == 0) packed = place;
    packed.count = place.first - packed.first + 1;
  }
  return packed;
}

void all_to_all(Member& me) {
  const auto ranks = static_cast<std::uint32_t>(me.ranks);
  const auto own = static_cast<std::uint32_t>(me.rank);
  std::vector<ChunkSet> slots;
  slots.reserve(ranks);
  for (Rank slot = 0; slot < me.ranks; ++slot) {
    slots.push_back(in(static_cast<std::uint32_t>(me.away(slot))));
  }
  for (std::uint32_t distance = 1; distance < ranks; distance *= 2) {
    const std::vector<std::uint32_t> moving = moving_slots(ranks, distance);
    std::vector<ChunkSet> parcels;
    parcels.reserve(moving.size());
    for (const std::uint32_t slot : moving) parcels.push_back(slots[slot]);
    const ChunkSet packed = pack(me, parcels);
    const ChunkSet arrived = me.program.scratch(packed);
    me.program.send(packed, me.away(static_cast<Rank>(distance)));
    me.program.recv(arrived, me.away(-static_cast<Rank>(distance)));
    for (std::uint32_t i = 0; i < moving.size(); ++i) {
      slots[moving[i]] = {ir::Space::kScratch, arrived.at(i), 1, 1};
    }
  }
  me.program.copy(in(own), out(own));
  for (Rank slot = 1; slot < me.ranks; ++slot) {
    me.program.copy(slots[static_cast<std::size_t>(slot)],
                    out(static_cast<std::uint32_t>(me.away(-slot))));
  }
}

void all_gather(Member& me) {
  me.program.copy(in(0), out(static_cast<std::uint32_t>(me.rank)));
  for (Rank held = 1; held < me.ranks; held *= 2) {
    const Rank moved = std::min(held, me.ranks - held);
    send_run(me, {ir::Space::kOutput, me.rank, moved}, me.away(-held));
    recv_run(me, {ir::Space::kOutput, me.away(held), moved}, me.away(held));
  }
}

bool supports(const ir::Request& request) {
  return well_formed(request) && (request.collective == Collective::kAllToAll ||
                                  request.collective == Collective::kAllGather);
}

Result<ir::Schedule> generate(const ir::Request& request) {
  if (!supports(request)) return unsupported("bruck", request);
  return generate(request, "bruck", 1,
                  request.collective == Collective::kAllToAll ? all_to_all : all_gather);
}

}  // namespace bruck_parts

ir::Algorithm bruck() {
  using namespace bruck_parts;
  return {.name = "bruck",
          .summary = "blocks travel together by distances 1, 2, 4, ...: few messages, any n",
          .supports = supports,
          .generate = generate};
}

}  // namespace tutti::algorithms
