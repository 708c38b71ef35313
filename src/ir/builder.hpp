// Builds a Schedule step by step and derives the dependencies from what each step reads and writes.
//
// Steps are appended per rank in the order that rank executes them. The builder remembers, per
// chunk of each space (with the request's in-place aliasing), the last writer and the readers
// since, and adds exactly the read-after-write, write-after-read and write-after-write
// dependencies that others do not imply. An algorithm therefore never writes a dependency by hand;
// the verifier checks them independently.
//
//   Builder build(request, "ring", /*chunks_per_block=*/n);
//   build.rank(r).send(out(3), next).recv(tmp, prev).reduce(tmp, out(2));
//   return std::move(build).finish();
#pragma once

#include <cstdint>
#include <limits>
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

  /// Appends to one rank's program. A handle: cheap to copy, valid while the builder lives.
  class RankBuilder {
   public:
    RankBuilder& send(ChunkSet src, Rank peer, Lane lane = 0);
    RankBuilder& recv(ChunkSet dst, Rank peer, Lane lane = 0);
    /// Appends nothing when `src` is `dst` by in-place aliasing, so that one generator serves both.
    RankBuilder& copy(ChunkSet src, ChunkSet dst);
    RankBuilder& reduce(ChunkSet src, ChunkSet dst);
    RankBuilder& encode(ChunkSet src, ChunkSet dst);
    RankBuilder& decode(ChunkSet src, ChunkSet dst);

    /// New scratch chunks with the element ranges of `like` (one each), contiguous and in order.
    ChunkSet scratch(ChunkSet like);

   private:
    friend class Builder;
    RankBuilder(Builder& builder, Rank rank) : builder_(&builder), rank_(rank) {}
    RankBuilder& append(Verb verb, ChunkSet src, ChunkSet dst, Rank peer = kNoRank, Lane lane = 0);
    Builder* builder_;
    Rank rank_;
  };
  RankBuilder rank(Rank r) { return {*this, r}; }

  [[nodiscard]] std::int32_t ranks() const { return schedule_.request.ranks; }
  Schedule finish() &&;

 private:
  struct Cell {  // one chunk of memory, aliases folded together
    StepId writer = kNoStep;
    std::uint32_t readers = kNoRead;  // since the last write: a list in RankState::reads
  };
  struct Read {
    StepId step = kNoStep;
    std::uint32_t next = kNoRead;
  };
  struct RankState {
    // Input chunks from alias_input on, alias_chunks of them, are output chunks from alias_output.
    std::uint32_t alias_input = 0, alias_output = 0, alias_chunks = 0;
    std::vector<Cell> input, output, scratch;
    std::vector<Read> reads;
    std::uint32_t unused_reads = kNoRead;  // a list in `reads`: of cells written since
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
