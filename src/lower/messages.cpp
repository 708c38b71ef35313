#include "src/lower/messages.hpp"

#include <set>
#include <utility>

#include "src/lower/places.hpp"

namespace tutti::lower {

using ir::ChunkSet;
using ir::Space;
using ir::Step;
using ir::Verb;

Messages messages_of(const ir::Schedule& schedule) {
  Messages messages;
  for (Rank rank = 0; rank < schedule.request.ranks; ++rank) {
    const auto place = [&](const ChunkSet& set, std::uint32_t i) {
      const ProgramMemory memory =
          set.space == Space::kInput ? ProgramMemory::kInput : ProgramMemory::kOutput;
      return place_of(schedule.request, schedule.chunks_per_block, rank, memory, set.at(i));
    };
    std::set<PlaceKey> written;
    const auto is_raw_input = [&](const ChunkSet& set) {
      if (set.space != Space::kInput) return false;
      for (std::uint32_t i = 0; i < set.count; ++i)
        if (written.contains(place(set, i))) return false;
      return true;
    };
    std::map<std::pair<Rank, Lane>, std::uint32_t> sends, receives;
    for (const Step& step : schedule.programs[rank].steps) {
      if (step.verb == Verb::kSend) {
        Message& message = messages[{rank, step.peer, step.lane, sends[{step.peer, step.lane}]++}];
        message.source = step.src;
        message.from_input = is_raw_input(step.src);
        continue;
      }
      if (step.verb == Verb::kRecv)
        messages[{step.peer, rank, step.lane, receives[{step.peer, step.lane}]++}].destination =
            step.dst;
      if (step.dst.space == Space::kScratch) continue;
      for (std::uint32_t i = 0; i < step.dst.count; ++i) written.insert(place(step.dst, i));
    }
  }
  return messages;
}

}  // namespace tutti::lower
