// Builds a Schedule step by step, and derives dependencies from what each step reads and writes.
//
// Append steps per rank, in the order in which that rank executes them. For each chunk of each
// space, in-place aliasing included, the builder remembers the last writer and the readers since.
// It adds the read-after-write, write-after-read and write-after-write dependencies, except those
// that others imply. So an algorithm never writes a dependency by hand. The verifier checks them
// independently.
//
//   Builder build(request, "ring", /*chunks_per_block=*/n);
//   build.rank(r).send(out(3), next).recv(tmp, prev).reduce(tmp, out(2));
//   return std::move(build).finish();
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "src/ir/schedule.hpp"

namespace tutti::ir {

inline ChunkSet in(std::uint32_t first, std::uint32_t count = 1, std::uint32_t stride = 1) {
  return {Space::kInput, first, count, stride};
}
inline ChunkSet out(std::uint32_t first, std::uint32_t count = 1, std::uint32_t stride = 1) {
  return {Space::kOutput, first, count, stride};
}

class Builder {
 public:
  Builder(const Request& request, std::string_view algorithm, std::uint32_t chunks_per_block);

  /// Appends steps to one rank's program. A handle: cheap to copy, valid while the builder lives.
  class RankBuilder {
   public:
    RankBuilder& send(ChunkSet src, Rank peer, Lane lane = 0);
    RankBuilder& recv(ChunkSet dst, Rank peer, Lane lane = 0);
    /// Converts if the formats differ. Appends nothing if in-place aliasing makes `src` and `dst`
    /// the same memory, so one generator serves both cases.
    RankBuilder& copy(ChunkSet src, ChunkSet dst);
    RankBuilder& reduce(ChunkSet src, ChunkSet dst);
    /// `dst` may be empty, and in a multicast `src` as well: see schedule.hpp.
    RankBuilder& group_reduce(ChunkSet src, ChunkSet dst, GroupId group);
    RankBuilder& multicast(ChunkSet src, ChunkSet dst, GroupId group);

    /// Allocates scratch chunks, one for each chunk of `like` and of its length, contiguous and in
    /// order. They are for values in `format`.
    ChunkSet scratch(ChunkSet like, FormatId format = kPlain);
    /// The same for data that is as long as these chunks (Program::scratch).
    ChunkSet scratch_for(std::span<const std::uint32_t> chunks, FormatId format = kPlain);
    FormatId format(std::string_view name) { return builder_->format(name); }
    GroupId group(std::span<const Rank> ranks) { return builder_->group(ranks); }

   private:
    friend class Builder;
    RankBuilder(Builder& builder, Rank rank) : builder_(&builder), rank_(rank) {}
    RankBuilder& append(Step step);
    Builder* builder_;
    Rank rank_;
  };
  RankBuilder rank(Rank r) { return {*this, r}; }
  /// The number of a format of this name, which is added if there is none.
  FormatId format(std::string_view name);
  /// The number of the group of these ranks in this order, added if there is none. Several
  /// groups may have the same ranks, each a tree of its own: the one after `nth` others.
  GroupId group(std::span<const Rank> ranks, std::size_t nth = 0);
  /// To a builder that has no groups yet, so they keep their numbers.
  void add_groups(std::span<const Group> groups);

  [[nodiscard]] std::int32_t ranks() const { return schedule_.request.ranks; }
  Schedule finish() &&;

 private:
  struct Cell {  // one chunk of memory; aliased chunks share a cell
    StepId writer = kNoStep;
    std::uint32_t readers = kNoRead;  // readers since the last write: a list in RankState::reads
  };
  struct Read {
    StepId step = kNoStep;
    std::uint32_t next = kNoRead;
  };
  struct RankState {
    // Input chunks [alias_input, alias_input + alias_chunks) are output chunks from alias_output
    // on.
    std::uint32_t alias_input = 0, alias_output = 0, alias_chunks = 0;
    std::vector<Cell> input, output, scratch;
    std::vector<Read> reads;
    std::uint32_t unused_reads = kNoRead;  // free list in `reads`: entries of cells written since
  };
  static constexpr StepId kNoStep = std::numeric_limits<StepId>::max();
  static constexpr std::uint32_t kNoRead = std::numeric_limits<std::uint32_t>::max();

  static Cell& cell(RankState& state, Space space, std::uint32_t chunk);
  static void add_read(RankState& state, Cell& cell, StepId step);
  static void set_writer(RankState& state, Cell& cell, StepId step);
  void collect_dependencies(RankState& state, const Step& step);
  bool same_memory(Rank rank, const ChunkSet& a, const ChunkSet& b);

  Schedule schedule_;
  std::vector<RankState> states_;
  std::vector<StepId> dependencies_;  // of the step being appended
};

}  // namespace tutti::ir
