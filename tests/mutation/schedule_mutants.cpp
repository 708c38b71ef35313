#include "tests/mutation/schedule_mutants.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace tutti::ir {
namespace {

using Steps = std::vector<Step>;

/// Renumbers dependencies by `renamed` (old index -> new index), keeping them ascending.
template <class Renamed>
void renumber(Steps& steps, Renamed renamed) {
  for (Step& step : steps) {
    for (StepId& dep : step.deps) dep = renamed(dep);
    std::sort(step.deps.begin(), step.deps.end());
  }
}

class Mutator {
 public:
  Mutator(Schedule& schedule, std::mt19937_64& random) : schedule_(schedule), random_(random) {
    rank_ = static_cast<Rank>(below(schedule.programs.size()));
  }

  bool apply(Mutation mutation) {
    if (mutation == Mutation::kScratch) return scratch();
    if (steps().empty()) return false;
    at_ = below(steps().size());
    switch (mutation) {
      case Mutation::kDrop:
        return drop();
      case Mutation::kDuplicate:
        return duplicate();
      case Mutation::kSwap:
        return below(4) != 0 ? swap_actions() : swap_neighbours();
      case Mutation::kChunk:
        return chunk();
      case Mutation::kPeer:
        return peer();
      case Mutation::kLane:
        return lane();
      case Mutation::kVerb:
        return verb();
      case Mutation::kSpace:
        return space();
      case Mutation::kDependency:
        return dependency();
      case Mutation::kCount:
        return count();
      case Mutation::kStride:
        return stride();
      case Mutation::kFormat:
        return format();
      case Mutation::kGroup:
        return group();
      case Mutation::kMember:
        return member();
      case Mutation::kScratch:
        break;
    }
    return false;
  }

 private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  Program& program() { return schedule_.programs[static_cast<std::size_t>(rank_)]; }
  Steps& steps() { return program().steps; }
  Step& step() { return steps()[at_]; }

  std::uint64_t chunks_of(Space space) {
    const BlockCounts blocks = block_counts(schedule_.request, rank_);
    if (space == Space::kScratch) return program().scratch.size();
    return static_cast<std::uint64_t>(space == Space::kInput ? blocks.input : blocks.output) *
           schedule_.chunks_per_block;
  }
  /// One of the operands that the step uses.
  ChunkSet& operand() {
    const Verb verb = step().verb;
    if (uses_group(verb) && step().src.count == 0) return step().dst;
    if (uses_group(verb) && step().dst.count == 0) return step().src;
    if (uses_src(verb) && uses_dst(verb)) return below(2) == 0 ? step().src : step().dst;
    return uses_src(verb) ? step().src : step().dst;
  }
  /// Moves a set to a random place where it fits; false when it fits nowhere.
  bool place(ChunkSet& set) {
    const std::uint64_t span = (std::uint64_t{set.count} - 1) * set.stride;
    const std::uint64_t chunks = chunks_of(set.space);
    if (span >= chunks) return false;
    set.first = static_cast<std::uint32_t>(below(chunks - span));
    return true;
  }

  bool drop() {
    const auto gone = static_cast<StepId>(at_);
    steps().erase(steps().begin() + gone);
    for (Step& step : steps()) std::erase(step.deps, gone);
    renumber(steps(), [gone](StepId dep) { return dep > gone ? dep - 1 : dep; });
    return true;
  }

  bool duplicate() {
    const auto id = static_cast<StepId>(at_);
    Step copy = step();
    renumber(steps(), [id](StepId dep) { return dep > id ? dep + 1 : dep; });
    if (below(2) == 0) copy.deps.push_back(id);
    steps().insert(steps().begin() + id + 1, std::move(copy));
    if (below(2) == 0) {  // whoever waited for the step waits for both
      for (std::size_t i = at_ + 2; i < steps().size(); ++i) {
        auto& deps = steps()[i].deps;
        const auto place = std::find(deps.begin(), deps.end(), id);
        if (place != deps.end()) deps.insert(place + 1, id + 1);
      }
    }
    return true;
  }

  /// What two steps do is exchanged; the dependencies stay where they are.
  bool swap_actions() {
    Step& other = steps()[below(steps().size())];
    std::swap(step(), other);
    std::swap(step().deps, other.deps);
    return true;
  }

  /// Two consecutive steps that do not depend on each other change their order.
  bool swap_neighbours() {
    if (at_ + 1 == steps().size()) return false;
    const auto id = static_cast<StepId>(at_);
    const auto& later = steps()[at_ + 1].deps;
    if (std::binary_search(later.begin(), later.end(), id)) return false;
    std::swap(steps()[at_], steps()[at_ + 1]);
    renumber(steps(), [id](StepId dep) { return dep == id ? id + 1 : dep == id + 1 ? id : dep; });
    return true;
  }

  bool chunk() { return place(operand()); }

  /// Another send (receive) of this rank, to exchange something with: then counts still match.
  Step* twin() {
    Step& other = steps()[below(steps().size())];
    return other.verb == step().verb ? &other : nullptr;
  }

  bool peer() {
    if (!uses_peer(step().verb)) return false;
    if (Step* other = below(2) == 0 ? twin() : nullptr) {
      std::swap(step().peer, other->peer);
      return true;
    }
    step().peer = static_cast<Rank>(below(schedule_.programs.size()));
    return step().peer != rank_;
  }

  bool lane() {
    if (!uses_peer(step().verb)) return false;
    if (Step* other = below(2) == 0 ? twin() : nullptr) {
      std::swap(step().lane, other->lane);
      return true;
    }
    schedule_.lanes = std::max(schedule_.lanes, 2U);
    const auto lane = static_cast<Lane>(below(schedule_.lanes));
    return std::exchange(step().lane, lane) != lane;
  }

  bool verb() {
    if (uses_peer(step().verb)) return false;
    if (uses_group(step().verb))
      step().verb = step().verb == Verb::kMulticast ? Verb::kGroupReduce : Verb::kMulticast;
    else
      step().verb = step().verb == Verb::kCopy ? Verb::kReduce : Verb::kCopy;
    return true;
  }

  /// Another format for an operand, for both, or for all that touch a scratch chunk. A schedule
  /// that has no format gets one.
  bool format() {
    if (schedule_.formats.size() < 2)
      schedule_.formats.push_back(schedule_.formats.empty() ? "a" : "b");
    const auto format = static_cast<FormatId>(below(schedule_.formats.size() + 1));
    ChunkSet& chosen = operand();
    if (chosen.space != Space::kScratch) return false;
    const std::size_t spread = below(3);
    const std::uint32_t first = chosen.first;
    chosen.format = format;
    if (spread == 0) return true;
    for (Step& step : steps())
      for (ChunkSet* set : {&step.src, &step.dst})
        if (set->count > 0 && set->space == Space::kScratch && set->first == first)
          set->format = spread == 1 || set->format != kPlain ? format : set->format;
    return true;
  }

  bool space() {
    ChunkSet& set = operand();
    set.space = static_cast<Space>(below(kSpaces));
    const std::uint64_t last = set.first + (std::uint64_t{set.count} - 1) * set.stride;
    return last < chunks_of(set.space) || place(set);
  }

  bool dependency() {
    auto& deps = step().deps;
    if (deps.empty()) return false;
    deps.erase(deps.begin() + static_cast<std::ptrdiff_t>(below(deps.size())));
    return true;
  }

  /// On both operands of a local step half of the time: else the lengths differ at once.
  bool count() {
    ChunkSet& set = operand();
    const auto count = static_cast<std::uint32_t>(1 + below(std::uint64_t{set.count} + 1));
    const auto change = [&](ChunkSet& changed) {
      changed.count = count;
      if (count == 1) changed.stride = 1;
    };
    const bool both = is_local(step().verb) && below(2) == 0;
    change(set);
    if (!both) return fits(set);
    change(step().src);
    change(step().dst);
    return fits(step().src) && fits(step().dst);
  }

  bool stride() {
    ChunkSet& set = operand();
    if (set.count == 1) return false;
    set.stride = static_cast<std::uint32_t>(1 + below(3));
    return fits(set);
  }

  /// A group of the same or fewer ranks, or one that another step of this rank goes over.
  bool group() {
    if (!uses_group(step().verb)) return false;
    const GroupId before = step().group;
    if (below(2) == 0) {
      step().group = static_cast<GroupId>(below(schedule_.groups.size()));
    } else {
      schedule_.groups.push_back(schedule_.groups[before]);
      std::vector<Rank>& ranks = schedule_.groups.back().ranks;
      if (ranks.size() > 2 && below(2) == 0)
        ranks.erase(ranks.begin() + static_cast<std::ptrdiff_t>(below(ranks.size())));
      step().group = static_cast<GroupId>(schedule_.groups.size() - 1);
      if (below(2) == 0) {  // the others follow
        for (const Rank rank : ranks)
          for (Step& other : schedule_.programs[static_cast<std::size_t>(rank)].steps)
            if (other.group == before) other.group = step().group;
      }
    }
    return step().group != before;
  }

  bool member() {
    if (schedule_.groups.empty()) return false;
    std::vector<Rank>& ranks = schedule_.groups[below(schedule_.groups.size())].ranks;
    const auto known = std::ranges::lower_bound(ranks, rank_);
    if (known == ranks.end() || *known != rank_)
      ranks.insert(known, rank_);
    else
      ranks.erase(known);
    return true;
  }

  bool scratch() {
    auto& sizes = program().scratch;
    if (sizes.empty()) return false;
    const auto size = static_cast<std::uint32_t>(below(schedule_.chunks_per_block));
    const std::uint32_t before = std::exchange(sizes[below(sizes.size())], size);
    return before % schedule_.chunks_per_block != size;
  }

  bool fits(const ChunkSet& set) {
    return set.first + (std::uint64_t{set.count} - 1) * set.stride < chunks_of(set.space);
  }

  Schedule& schedule_;
  std::mt19937_64& random_;
  Rank rank_ = 0;
  std::size_t at_ = 0;
};

}  // namespace

std::string_view name_of(Mutation mutation) {
  constexpr std::string_view kNames[] = {
      "drop a step",  "duplicate a step",   "swap two steps", "other chunk",       "other peer",
      "other lane",   "other verb",         "other space",    "drop a dependency", "other count",
      "other stride", "other scratch size", "other format",   "other group",       "other members"};
  return kNames[static_cast<std::size_t>(mutation)];
}

std::optional<Schedule> mutate(const Schedule& original, Mutation mutation,
                               std::mt19937_64& random) {
  Schedule mutant = original;
  if (!Mutator(mutant, random).apply(mutation) || mutant == original) return std::nullopt;
  return mutant;
}

}  // namespace tutti::ir
