#include "src/ir/verify.hpp"

#include <algorithm>
#include <string>

#include "src/base/printable.hpp"
#include "src/base/result.hpp"
#include "src/ir/cells.hpp"
#include "src/ir/group_operations.hpp"
#include "src/ir/match.hpp"
#include "src/ir/races.hpp"
#include "src/ir/replay.hpp"
#include "src/ir/text.hpp"

namespace tutti::ir {
namespace {

constexpr std::int32_t kMostRequestRanks = 65536;
/// Chunks of all buffers and scratch of all ranks: eight bytes each in the replay, 256 MiB.
constexpr std::uint64_t kMostCells = std::uint64_t{1} << 25;
/// Chunks named by all operands of all steps: the time that a proof takes. A file of a few lines
/// can ask for any amount.
constexpr std::uint64_t kMostAccesses = std::uint64_t{1} << 27;

Status check_request(const Request& request) {
  if (request.collective >= Collective::kSend)
    return make_error(Code::kInvalidArgument,
                      "{} has no global schedule; one of the other collectives was expected",
                      static_cast<int>(request.collective) < kCollectives
                          ? name_of(request.collective)
                          : "an unknown collective");
  if (request.ranks < 1 || request.ranks > kMostRequestRanks)
    return make_error(Code::kInvalidArgument, "1 to {} ranks were expected, found {}",
                      kMostRequestRanks, request.ranks);
  const std::int32_t roots = rooted(request.collective) ? request.ranks : 1;
  if (request.root < 0 || request.root >= roots)
    return make_error(Code::kInvalidArgument, "a root below {} was expected for {}, found {}",
                      roots, name_of(request.collective), request.root);
  if (request.in_place && request.collective == Collective::kAllToAll)
    return make_error(Code::kInvalidArgument, "all_to_all is not defined in place");
  return ok_status();
}

/// Blocks of the largest buffer of any rank: what scratch may be sized like.
std::uint64_t most_blocks(const Request& request) {
  const BlockCounts root = block_counts(request, request.root);
  return static_cast<std::uint64_t>(std::max(root.input, root.output));
}

Status check_groups(const Schedule& schedule, std::size_t trees) {
  if (schedule.groups.size() > std::min(trees, kMostGroups))
    return make_error(Code::kInvalidArgument,
                      "{} groups need as many trees of the network; at most {} were expected",
                      schedule.groups.size(), std::min(trees, kMostGroups));
  for (std::size_t id = 0; id < schedule.groups.size(); ++id) {
    std::vector<Rank> ranks = schedule.groups[id].ranks;
    std::ranges::sort(ranks);
    const bool differ = std::ranges::adjacent_find(ranks) == ranks.end();
    if (ranks.size() < 2 || !differ || ranks.front() < 0 || ranks.back() >= schedule.request.ranks)
      return make_error(Code::kInvalidArgument,
                        "group {}: at least two different ranks below {} were expected", id,
                        schedule.request.ranks);
  }
  return ok_status();
}

Status check_shape(const Schedule& schedule, const VerifyOptions& options) {
  TUTTI_TRY(check_request(schedule.request));
  TUTTI_TRY(check_groups(schedule, options.trees));
  if (schedule.programs.size() != static_cast<std::size_t>(schedule.request.ranks))
    return make_error(Code::kInvalidArgument, "{} programs were expected, found {}",
                      schedule.request.ranks, schedule.programs.size());
  if (schedule.chunks_per_block < 1 || schedule.chunks_per_block > kMostCells)
    return make_error(Code::kInvalidArgument, "1 to {} chunks per block were expected, found {}",
                      kMostCells, schedule.chunks_per_block);
  if (schedule.formats.size() > kMostFormats)
    return make_error(Code::kInvalidArgument, "at most {} formats were expected, found {}",
                      kMostFormats, schedule.formats.size());
  for (const std::string& name : schedule.formats)
    if (!is_format_name(name) || std::ranges::count(schedule.formats, name) > 1)
      return make_error(Code::kInvalidArgument,
                        "different names of at most {} small letters, digits and underscores were "
                        "expected for formats, found '{}'",
                        kLongestFormatName, without_controls(name));
  std::uint64_t cells = 0;
  for (Rank rank = 0; rank < schedule.request.ranks; ++rank)
    cells += CellMap(schedule, rank).size();
  if (cells > kMostCells)
    return make_error(Code::kInvalidArgument,
                      "{} chunks over all ranks are more than the {} that can be verified; use "
                      "fewer chunks per block",
                      cells, kMostCells);
  std::uint64_t accesses = 0;
  for (const Program& program : schedule.programs)
    for (const Step& step : program.steps)
      accesses += std::uint64_t{step.src.count} + step.dst.count;
  if (accesses > kMostAccesses)
    return make_error(Code::kInvalidArgument,
                      "{} chunks named by all steps are more than the {} that can be verified; use "
                      "fewer chunks per block",
                      accesses, kMostAccesses);
  return ok_status();
}

/// Checks one rank's program by itself.
class ProgramCheck {
 public:
  ProgramCheck(const Schedule& schedule, const Membership& membership, Rank rank)
      : schedule_(schedule),
        membership_(membership),
        rank_(rank),
        program_(schedule.programs[static_cast<std::size_t>(rank)]),
        map_(schedule, rank) {}

  Status run() const {
    const std::uint64_t limit = most_blocks(schedule_.request) * schedule_.chunks_per_block;
    for (std::size_t i = 0; i < program_.scratch.size(); ++i)
      if (program_.scratch[i] >= limit)
        return make_error(Code::kInvalidArgument,
                          "rank {} tmp[{}] is sized like chunk {}; a chunk below {} was expected",
                          rank_, i, program_.scratch[i], limit);
    for (StepId id = 0; id < program_.steps.size(); ++id) TUTTI_TRY(check(id));
    return ok_status();
  }

 private:
  template <class... Args>
  Error fail(StepId id, fmt::format_string<Args...> format, Args&&... args) const {
    return make_error(Code::kInvalidArgument, "{}: {}", describe(schedule_, rank_, id),
                      fmt::format(format, std::forward<Args>(args)...));
  }

  Status check(StepId id) const {
    const Step& step = program_.steps[id];
    if (static_cast<int>(step.verb) >= kVerbs || static_cast<int>(step.src.space) >= kSpaces ||
        static_cast<int>(step.dst.space) >= kSpaces)
      return make_error(Code::kInvalidArgument,
                        "rank {} step {}: a known verb and known spaces were expected, found verb "
                        "{} and spaces {} and {}",
                        rank_, id, static_cast<int>(step.verb), static_cast<int>(step.src.space),
                        static_cast<int>(step.dst.space));
    TUTTI_TRY(check_operand(id, "source", step.src, has_src(step)));
    TUTTI_TRY(check_operand(id, "destination", step.dst, has_dst(step)));
    TUTTI_TRY(check_kind(id, step));
    TUTTI_TRY(check_destination(id, step));
    return check_deps(id, step);
  }

  /// Group steps have what their operands say.
  static bool has_src(const Step& step) {
    return uses_src(step.verb) && (step.verb != Verb::kMulticast || step.src.count != 0);
  }
  static bool has_dst(const Step& step) {
    return uses_dst(step.verb) && (!uses_group(step.verb) || step.dst.count != 0);
  }

  Status check_kind(StepId id, const Step& step) const {
    if (!uses_group(step.verb) && step.group != kNoGroup)
      return fail(id, "no group was expected, found {}", step.group);
    if (!uses_peer(step.verb) && (step.peer != kNoRank || step.lane != 0))
      return fail(id, "no peer and lane 0 were expected, found peer {} and lane {}", step.peer,
                  step.lane);
    if (uses_peer(step.verb)) return check_peer(id, step);
    return uses_group(step.verb) ? check_group(id, step) : check_local(id, step);
  }

  Status check_group(StepId id, const Step& step) const {
    if (step.group >= schedule_.groups.size())
      return fail(id, "a group below {} was expected, found {}", schedule_.groups.size(),
                  step.group);
    if (!membership_.place(step.group, rank_))
      return fail(id, "rank {} is no member of group {}", rank_, step.group);
    return ok_status();
  }

  Status check_operand(StepId id, std::string_view name, const ChunkSet& set, bool used) const {
    if (!used) {
      if (set == ChunkSet{}) return ok_status();
      return fail(id, "no {} was expected, found {}", name, print(set, schedule_.formats));
    }
    if (set.format > schedule_.formats.size())
      return fail(id, "the {} has format {}, but there are {} formats", name, set.format,
                  schedule_.formats.size());
    if (set.format != kPlain && set.space != Space::kScratch)
      return fail(id, "the {} has a format, where only scratch holds formatted values", name);
    if (set.count == 0) return fail(id, "a {} was expected, found none", name);
    if (set.count == 1 ? set.stride != 1 : set.stride == 0)
      return fail(id,
                  "the {} has {} chunks and stride {}; a stride from 1 was expected, and 1 for "
                  "a single chunk",
                  name, set.count, set.stride);
    const std::uint64_t last = set.first + (std::uint64_t{set.count} - 1) * set.stride;
    if (last >= map_.chunks(set.space))
      return fail(id, "the {} ends at chunk {}, but rank {} has {} chunks of {}", name, last, rank_,
                  map_.chunks(set.space), name_of(set.space));
    return ok_status();
  }

  Status check_peer(StepId id, const Step& step) const {
    if (step.peer < 0 || step.peer >= schedule_.request.ranks || step.peer == rank_)
      return fail(id, "another rank below {} was expected as peer, found {}",
                  schedule_.request.ranks, step.peer);
    if (const auto lanes = std::min(schedule_.lanes, kMostLanes); step.lane >= lanes)
      return fail(id, "a lane below {} was expected, found {}", lanes, step.lane);
    return ok_status();
  }

  Status check_local(StepId id, const Step& step) const {
    if (step.src.count != step.dst.count)
      return fail(id, "as many destination as source chunks were expected, found {} and {}",
                  step.dst.count, step.src.count);
    for (std::uint32_t i = 0; i < step.src.count; ++i) {
      const auto from = index_in_block(schedule_, rank_, step.src.space, step.src.at(i));
      const auto to = index_in_block(schedule_, rank_, step.dst.space, step.dst.at(i));
      if (from != to)
        return fail(id,
                    "source chunk {} has the size of chunk {} of a block, its destination that "
                    "of chunk {}; the same was expected",
                    step.src.at(i), from, to);
      const bool is_same_memory =
          map_.cell(step.src.space, step.src.at(i)) == map_.cell(step.dst.space, step.dst.at(i));
      if (is_same_memory && step.src.format != step.dst.format)
        return fail(id, "converts chunk {} onto itself; other memory was expected", step.src.at(i));
    }
    return ok_status();
  }

  Status check_destination(StepId id, const Step& step) const {
    const bool adds = step.verb == Verb::kReduce || step.verb == Verb::kGroupReduce;
    if (adds && !reduces(schedule_.request.collective))
      return fail(id, "{} reduces nothing; no {} was expected",
                  name_of(schedule_.request.collective), name_of(step.verb));
    if (step.verb == Verb::kReduce && step.dst.format != kPlain)
      return fail(id, "adds to formatted values; a plain sum was expected");
    if (step.verb == Verb::kGroupReduce &&
        (step.src.format != kPlain || (step.dst.count > 0 && step.dst.format != kPlain)))
      return fail(id, "lets the network add formatted values; plain ones were expected");
    if (!uses_dst(step.verb) || step.dst.space != Space::kInput) return ok_status();
    for (std::uint32_t i = 0; i < step.dst.count; ++i)
      if (!map_.aliased(step.dst.at(i)))
        return fail(id, "writes in[{}], which the caller expects unchanged", step.dst.at(i));
    return ok_status();
  }

  Status check_deps(StepId id, const Step& step) const {
    for (std::size_t i = 0; i < step.deps.size(); ++i) {
      if (step.deps[i] >= id)
        return fail(id, "dependencies on earlier steps were expected, found {}", step.deps[i]);
      if (i != 0 && step.deps[i] <= step.deps[i - 1])
        return fail(id, "ascending dependencies were expected, found {} after {}", step.deps[i],
                    step.deps[i - 1]);
    }
    return ok_status();
  }

  const Schedule& schedule_;
  const Membership& membership_;
  Rank rank_;
  const Program& program_;
  CellMap map_;
};

}  // namespace

Result<Proof> verify(const Schedule& schedule, const VerifyOptions& options) {
  if (options.fifo_depth == 0)
    return make_error(Code::kInvalidArgument, "a FIFO depth of at least 1 message was expected");
  TUTTI_TRY(check_shape(schedule, options));
  const Membership membership(schedule);
  for (Rank rank = 0; rank < schedule.request.ranks; ++rank)
    TUTTI_TRY(ProgramCheck(schedule, membership, rank).run());
  TUTTI_ASSIGN(const Matching matching, match(schedule));
  TUTTI_ASSIGN(const GroupOperations operations, group_operations(schedule, membership));
  TUTTI_TRY(check_races(schedule, membership, operations));
  return replay(schedule, matching, operations, options);
}

std::string describe(const Schedule& schedule, Rank rank, StepId step) {
  return fmt::format("rank {} step {}: {}", rank, step,
                     print_action(schedule.programs[static_cast<std::size_t>(rank)].steps[step],
                                  schedule.formats));
}

}  // namespace tutti::ir
