#include "src/lower/movers.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "src/ir/request.hpp"
#include "src/lower/places.hpp"

namespace tutti::lower {
namespace {

using ir::ChunkSet;
using ir::Space;
using ir::Verb;

/// Raw input that goes straight to an output can be moved from either end.
bool has_choice(const Message& message) {
  return message.from_input && message.destination.space == Space::kOutput;
}

/// The messages with those that have a choice moved by their senders, or by their receivers;
/// nothing where one can be moved by neither.
std::optional<Messages> moved(Messages messages, bool by_senders, bool may_store) {
  for (auto& [id, message] : messages) {
    message.stored = !message.from_input || (by_senders && has_choice(message));
    const bool possible = may_store && message.destination.space == Space::kOutput;
    if (message.stored && !possible) return std::nullopt;
  }
  return messages;
}

Rank mover_of(const MessageId& id, const Message& message) {
  return message.stored ? id.source : id.destination;
}

/// Who touches each place of the users' memory.
class Touches {
 public:
  explicit Touches(const ir::Schedule& schedule) : schedule_(schedule) {
    for (Rank rank = 0; rank < schedule.request.ranks; ++rank)
      for (const ir::Step& step : schedule.programs[rank].steps) {
        if (step.verb != Verb::kCopy && step.verb != Verb::kReduce) continue;
        add(rank, rank, step.src, false);
        add(rank, rank, step.dst, true);
      }
  }

  void add(const MessageId& id, const Message& message) {
    const Rank mover = mover_of(id, message);
    add(mover, id.source, message.source, false);
    add(mover, id.destination, message.destination, true);
  }

  /// Whether what anybody writes is touched by one rank alone.
  [[nodiscard]] bool keep_apart() const {
    return std::ranges::all_of(uses_, [](const auto& entry) {
      const Use& use = entry.second;
      return !use.written || use.ranks.size() == 1;
    });
  }

 private:
  struct Use {
    std::set<Rank> ranks;
    bool written = false;
  };

  void add(Rank by, Rank owner, const ChunkSet& set, bool writes) {
    if (set.space == Space::kScratch) return;
    const ProgramMemory memory =
        set.space == Space::kInput ? ProgramMemory::kInput : ProgramMemory::kOutput;
    for (std::uint32_t i = 0; i < set.count; ++i) {
      const PlaceKey place =
          place_of(schedule_.request, schedule_.chunks_per_block, owner, memory, set.at(i));
      Use& use = uses_[{owner, place}];
      use.ranks.insert(by);
      use.written |= writes;
    }
  }

  const ir::Schedule& schedule_;
  std::map<std::pair<Rank, PlaceKey>, Use> uses_;
};

bool keeps_apart(const ir::Schedule& schedule, const Messages& messages) {
  Touches touches(schedule);
  for (const auto& [id, message] : messages) touches.add(id, message);
  return touches.keep_apart();
}

/// What one rank moves. What goes to several places is loaded once.
struct Work {
  std::set<std::pair<Rank, PlaceKey>> loads;
  std::size_t stores = 0;
  std::set<std::uint32_t> given;  ///< chunks of its output that messages fill
};

/// The rest of its output a rank fills itself, from the input that would be the same memory in
/// place. In place that is nothing to do, and is counted all the same.
void add_own_output(const ir::Schedule& schedule, Rank rank, Work& work) {
  ir::Request in_place = schedule.request;
  in_place.in_place = true;
  const auto blocks = static_cast<std::uint32_t>(ir::block_counts(in_place, rank).output);
  for (std::uint32_t chunk = 0; chunk < blocks * schedule.chunks_per_block; ++chunk) {
    if (work.given.contains(chunk)) continue;
    work.loads.insert(
        {rank, place_of(in_place, schedule.chunks_per_block, rank, ProgramMemory::kOutput, chunk)});
    ++work.stores;
  }
}

/// Chunks that the busiest rank loads and stores.
std::size_t busiest_traffic(const ir::Schedule& schedule, const Messages& messages) {
  const auto memory_of = [](const ChunkSet& set) {
    return set.space == Space::kInput ? ProgramMemory::kInput : ProgramMemory::kOutput;
  };
  std::vector<Work> work(schedule.programs.size());
  for (const auto& [id, message] : messages) {
    Work& mover = work[mover_of(id, message)];
    mover.stores += message.source.count;
    for (std::uint32_t i = 0; i < message.source.count; ++i) {
      mover.loads.insert({id.source, {memory_of(message.source), message.source.at(i)}});
      if (message.destination.space == Space::kOutput)
        work[id.destination].given.insert(message.destination.at(i));
    }
  }
  std::size_t most = 0;
  for (Rank rank = 0; rank < schedule.request.ranks; ++rank) {
    add_own_output(schedule, rank, work[rank]);
    most = std::max(most, work[rank].loads.size() + work[rank].stores);
  }
  return most;
}

}  // namespace

std::optional<Messages> settle_movers(const ir::Schedule& schedule, const LowerOptions& options) {
  const Messages messages = messages_of(schedule);
  std::optional<Messages> best;
  std::size_t least = 0;
  for (const bool by_senders : {false, true}) {
    std::optional<Messages> way = moved(messages, by_senders, options.stores_to_peers);
    if (!way || !keeps_apart(schedule, *way)) continue;
    const std::size_t traffic = busiest_traffic(schedule, *way);
    if (best && traffic >= least) continue;
    least = traffic;
    best = std::move(way);
  }
  return best;
}

}  // namespace tutti::lower
