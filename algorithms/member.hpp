// What the algorithm files share: a rank's view of its own program, and the few idioms in which
// several of them speak.
//
// An algorithm is written as in the papers, as one program that every rank runs with its own
// number: a function of a Member. generate() runs it for each rank in turn. Index arithmetic is
// pure and needs no other rank's program.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "src/ir/algorithm.hpp"
#include "src/ir/builder.hpp"

namespace tutti::algorithms {

using ir::ChunkSet;
using ir::in;
using ir::out;

/// Rounds in which a message can reach n ranks if their number doubles: ceil(log2 n), 0 for n = 1.
constexpr std::uint32_t ceil_log2(std::uint32_t n) {
  return n <= 1 ? 0 : static_cast<std::uint32_t>(std::bit_width(n - 1));
}

/// value modulo n, never negative.
constexpr Rank wrap(Rank value, Rank n) { return ((value % n) + n) % n; }

/// One rank while its program is being written. Cheap to copy; valid while the builder lives.
struct Member {
  ir::Request request;
  Rank rank;   ///< this rank
  Rank ranks;  ///< n
  ir::Builder::RankBuilder program;

  /// The rank `distance` further around the circle; negative is backwards.
  [[nodiscard]] Rank away(Rank distance) const;
  [[nodiscard]] bool is_root() const { return rank == request.root; }
  /// Position counted from the root: 0 is the root itself.
  [[nodiscard]] Rank from_root() const;
  [[nodiscard]] bool in_place() const { return request.in_place; }
};

/// Writes one rank's program; called with two ranks or more.
using RankProgram = void (*)(Member&);

/// Runs `program` for every rank. One rank alone needs no algorithm: its input is copied to its
/// output, and in place nothing is done.
ir::Schedule generate(const ir::Request& request, std::string_view algorithm,
                      std::uint32_t chunks_per_block, RankProgram program);

/// The request makes sense by itself: at least one rank, a root among them (0 where there is no
/// root), and an in-place form that is defined. Every `supports` starts with it.
bool well_formed(const ir::Request& request);

Error unsupported(std::string_view algorithm, const ir::Request& request);

/// The cost of a program in which the busiest rank sends S * numerator / denominator; one rank
/// alone sends nothing.
ir::Cost cost_of(const ir::Request& request, std::uint32_t rounds, std::uint64_t numerator,
                 std::uint64_t denominator);

/// Sends `src` to every other rank. The next rank around the circle comes first, so that no rank is
/// everybody's first target; the operand is the same each time, so one publication serves all.
void send_to_all(Member& me, ChunkSet src);

/// dst = parts[0] + parts[1] + ..., added in this order, so that every rank that combines the same
/// parts gets the same bits. parts[own] is this rank's; with `dst_is_own` it shares memory with
/// `dst`, and is saved first unless it comes first.
struct Parts {
  std::vector<ChunkSet> in_order;
  std::size_t own = 0;
};
void combine(Member& me, Parts parts, ChunkSet dst, bool dst_is_own);

/// The same for one contribution of every rank, in the order of ranks; contributions[me.rank] is
/// this rank's own input.
void combine_in_rank_order(Member& me, std::span<const ChunkSet> contributions, ChunkSet dst,
                           bool dst_is_own);

/// Sends and receives several sets at once: set i is a message on lane i, so that none has to wait
/// for another. Both ends name sets of the same sizes in the same order.
void send_sets(Member& me, std::span<const ChunkSet> sets, Rank peer);
void recv_sets(Member& me, std::span<const ChunkSet> sets, Rank peer);

/// Sends and receives a run of blocks that may wrap around from the last block to block 0: the run
/// is then two messages, the second on lane 1, so that neither has to wait for the other. Both ends
/// cut at the same block. Blocks are chunks of `space`, so a block must be one chunk.
struct BlockRun {
  ir::Space space = ir::Space::kOutput;
  Rank first = 0;  ///< already wrapped, 0 .. n-1
  Rank count = 0;  ///< 0 .. n
};
void send_run(Member& me, BlockRun run, Rank peer);
void recv_run(Member& me, BlockRun run, Rank peer);
/// The one or two unbroken parts of a run.
std::vector<ChunkSet> parts_of(BlockRun run, Rank ranks);

/// Receives every other rank's contribution to `like` into scratch; own is put at its place.
std::vector<ChunkSet> receive_contributions(Member& me, ChunkSet like, ChunkSet own);

/// Of n chunks, or blocks, the one that rank or position `owner` owns.
constexpr std::uint32_t chunk_of(Rank owner) { return static_cast<std::uint32_t>(owner); }
/// Each rank sends chunk p of its input to p. Returns the contributions of all ranks to this rank's
/// own chunk, in the order of ranks.
std::vector<ChunkSet> exchange_contributions(Member& me);
/// Receives the others' chunks of the output, each from its owner.
void receive_from_owners(Member& me);

}  // namespace tutti::algorithms
