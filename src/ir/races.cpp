#include "src/ir/races.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "src/base/result.hpp"
#include "src/ir/cells.hpp"
#include "src/ir/text.hpp"
#include "src/ir/verify.hpp"

namespace tutti::ir {
namespace {

constexpr StepId kNoStep = std::numeric_limits<StepId>::max();

/// Reachability over the dependencies of one program.
class HappensBefore {
 public:
  explicit HappensBefore(const std::vector<Step>& steps)
      : steps_(steps), visited_(steps.size(), kNoStep) {}

  /// Whether `before` completes before `after` may touch memory. Nearly always a direct dependency;
  /// else a search backward that never goes past `before`.
  bool ordered(StepId before, StepId after) {
    const auto& direct = steps_[after].deps;
    if (std::binary_search(direct.begin(), direct.end(), before)) return true;
    ++query_;
    stack_.assign(1, after);
    while (!stack_.empty()) {
      const StepId step = stack_.back();
      stack_.pop_back();
      for (const StepId dep : steps_[step].deps) {
        if (dep == before) return true;
        if (dep < before || visited_[dep] == query_) continue;
        visited_[dep] = query_;
        stack_.push_back(dep);
      }
    }
    return false;
  }

 private:
  const std::vector<Step>& steps_;
  std::vector<std::uint32_t> visited_;  // the query that saw the step last
  std::uint32_t query_ = 0;
  std::vector<StepId> stack_;
};

/// Replays the accesses of one rank. Per cell it is enough to compare with the last writer and the
/// readers since: earlier accesses are ordered before those, and order is transitive.
class RaceCheck {
 public:
  RaceCheck(const Schedule& schedule, const Membership& membership,
            const GroupOperations& operations, Rank rank)
      : schedule_(schedule),
        rank_(rank),
        steps_(schedule.programs[static_cast<std::size_t>(rank)].steps),
        map_(schedule, rank),
        cells_(map_.size()),
        order_(steps_) {
    find_group_parts(membership, operations);
  }

  Status run() {
    for (StepId id = 0; id < steps_.size(); ++id) {
      const Step& step = steps_[id];
      TUTTI_TRY(read(id, step.src));
      if (step.verb == Verb::kReduce) TUTTI_TRY(after_writer(id, step.dst));
      TUTTI_TRY(write(id, step.dst));
    }
    return ok_status();
  }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  struct Cell {
    StepId writer = kNoStep;
    std::uint32_t readers = kNone;  // since the last write: a list in reads_
  };
  struct Read {
    StepId step = kNoStep;
    std::uint32_t next = kNone;
  };

  void find_group_parts(const Membership& membership, const GroupOperations& operations) {
    for (std::size_t group = 0; group < operations.size(); ++group) {
      const auto place = membership.place(static_cast<GroupId>(group), rank_);
      if (!place) continue;
      group_parts_.resize(steps_.size());
      for (const GroupOperation& operation : operations[group])
        group_parts_[operation.parts[*place].step] = operation.parts[*place];
    }
  }

  /// Whether a group step's destination chunk i is where the source chunk of its position is.
  bool replaces_its_source(StepId id, std::uint32_t i) {
    if (!uses_group(steps_[id].verb)) return false;
    const ChunkSet& src = steps_[id].src;
    const ChunkSet& dst = steps_[id].dst;
    const GroupPart& part = group_parts_[id];
    const std::uint32_t position = part.first + i;
    return position >= part.first_sent && position - part.first_sent < src.count &&
           &at(src, position - part.first_sent) == &at(dst, i);
  }

  Cell& at(const ChunkSet& set, std::uint32_t i) { return cells_[map_.cell(set.space, set.at(i))]; }

  Status after_writer(StepId id, const ChunkSet& set) {
    for (std::uint32_t i = 0; i < set.count; ++i) {
      const StepId writer = at(set, i).writer;
      if (writer != kNoStep && !order_.ordered(writer, id)) return race(id, set, i, writer);
    }
    return ok_status();
  }

  Status read(StepId id, const ChunkSet& set) {
    TUTTI_TRY(after_writer(id, set));
    for (std::uint32_t i = 0; i < set.count; ++i) {
      Cell& cell = at(set, i);
      reads_.push_back({id, cell.readers});
      cell.readers = static_cast<std::uint32_t>(reads_.size() - 1);
    }
    return ok_status();
  }

  Status write(StepId id, const ChunkSet& set) {
    for (std::uint32_t i = 0; i < set.count; ++i) {
      Cell& cell = at(set, i);
      for (std::uint32_t read = cell.readers; read != kNone; read = reads_[read].next) {
        const StepId reader = reads_[read].step;
        if (reader == id && replaces_its_source(id, i)) continue;
        if (reader == id) return overlap(id, set, i);
        if (!order_.ordered(reader, id)) return race(id, set, i, reader);
      }
      if (cell.readers == kNone && cell.writer != kNoStep && !order_.ordered(cell.writer, id))
        return race(id, set, i, cell.writer);
      cell.writer = id;
      cell.readers = kNone;
    }
    return ok_status();
  }

  Error race(StepId id, const ChunkSet& set, std::uint32_t i, StepId other) const {
    return make_error(Code::kInvalidArgument,
                      "{}: races for {} with {}; a dependency on step {} was expected, directly or "
                      "through others, and none was found",
                      describe(schedule_, rank_, id), print(ChunkSet{set.space, set.at(i), 1, 1}),
                      describe(schedule_, rank_, other), other);
  }

  Error overlap(StepId id, const ChunkSet& set, std::uint32_t i) const {
    return make_error(Code::kInvalidArgument,
                      "{}: reads and writes the memory of {}; operands that do not overlap were "
                      "expected",
                      describe(schedule_, rank_, id), print(ChunkSet{set.space, set.at(i), 1, 1}));
  }

  const Schedule& schedule_;
  Rank rank_;
  const std::vector<Step>& steps_;
  CellMap map_;
  std::vector<Cell> cells_;
  std::vector<Read> reads_;
  std::vector<GroupPart> group_parts_;  // by step; empty if this rank is in no group
  HappensBefore order_;
};

}  // namespace

Status check_races(const Schedule& schedule, const Membership& membership,
                   const GroupOperations& operations) {
  for (Rank rank = 0; rank < schedule.request.ranks; ++rank)
    TUTTI_TRY(RaceCheck(schedule, membership, operations, rank).run());
  return ok_status();
}

}  // namespace tutti::ir
