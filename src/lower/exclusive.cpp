#include "src/lower/exclusive.hpp"

#include <map>
#include <utility>

#include "src/base/result.hpp"
#include "src/lower/lower.hpp"
#include "src/lower/places.hpp"

namespace tutti::lower {

Status check_exclusive(const Lowered& lowered) {
  if (lowered.protocol != ProgramProtocol::kDirect) return ok_status();
  struct Use {
    Rank rank = kNoRank;
    std::uint32_t op = 0;
    bool several = false, written = false;
  };
  std::map<std::pair<Rank, PlaceKey>, Use> uses;
  const auto touch = [&](Rank rank, std::uint32_t op, const Operand& operand, bool writes) {
    const bool peers = is_peers_buffer(operand.memory);
    const Rank owner = peers ? operand.owner : rank;
    const ProgramMemory memory = operand.memory == ProgramMemory::kPublished ? ProgramMemory::kInput
                                 : operand.memory == ProgramMemory::kPeerOutput
                                     ? ProgramMemory::kOutput
                                     : operand.memory;
    for (const std::uint32_t piece : operand.pieces) {
      const PlaceKey place =
          place_of(lowered.request, lowered.chunks_per_block, owner, memory, piece);
      Use& use = uses.try_emplace({owner, place}, Use{rank, op}).first->second;
      if (use.rank != rank) use.several = true;
      if (writes) use.written = true;
    }
  };
  for (Rank rank = 0; rank < lowered.request.ranks; ++rank)
    for (std::uint32_t id = 0; id < lowered.programs[rank].ops.size(); ++id) {
      const Op& op = lowered.programs[rank].ops[id];
      for (const Operand& source : op.sources) touch(rank, id, source, false);
      for (const Operand& destination : op.destinations) touch(rank, id, destination, true);
    }
  for (const auto& [place, use] : uses)
    if (use.written && use.several)
      return make_error(Code::kInternal,
                        "{} shares {}[{}] of rank {}, which is written, with "
                        "another rank",
                        describe(lowered, use.rank, use.op), name_of(place.second.memory),
                        place.second.piece, place.first);
  return ok_status();
}

}  // namespace tutti::lower
