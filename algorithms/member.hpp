// Shared by the algorithm files: a rank's view of its own program, and common idioms.
//
// An algorithm is written as in the papers: one program that every rank runs with its own number.
// Here that is a function of a Member. generate() runs it for each rank in turn. Index arithmetic
// is pure and needs no other rank's program.
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

/// Rounds until a message has reached n ranks, if their number doubles each round: ceil(log2 n); 0
/// for n = 1.
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

  /// The rank `distance` places further around the circle; negative distances go backwards.
  [[nodiscard]] Rank away(Rank distance) const;
  [[nodiscard]] bool is_root() const { return rank == request.root; }
  /// Distance after the root: 0 is the root itself.
  [[nodiscard]] Rank from_root() const;
  [[nodiscard]] bool in_place() const { return request.in_place; }
};

/// Writes one rank's program. Called only for two or more ranks.
using RankProgram = void (*)(Member&);

/// Runs `program` for every rank. A single rank needs no algorithm: its input is copied to its
/// output, and in place nothing is done.
ir::Schedule generate(const ir::Request& request, std::string_view algorithm,
                      std::uint32_t chunks_per_block, RankProgram program);

/// Whether the request is valid in itself: at least one rank, a valid root (0 for collectives
/// without a root), and an in-place form only where one is defined. Every `supports` checks it
/// first.
bool well_formed(const ir::Request& request);

Error unsupported(std::string_view algorithm, const ir::Request& request);

/// Sends `src` to every other rank. Each rank begins with the next rank around the circle, so no
/// rank is the first target of all. The operand is always the same, so one publication serves all.
void send_to_all(Member& me, ChunkSet src);

/// dst = parts[0] + parts[1] + ..., added in this order, so every rank that combines the same parts
/// gets the same bits. parts[own] is this rank's. With `dst_is_own` it shares memory with `dst`;
/// then it is saved first, unless it is parts[0].
struct Parts {
  std::vector<ChunkSet> in_order;
  std::size_t own = 0;
};
void combine(Member& me, Parts parts, ChunkSet dst, bool dst_is_own);

/// The same for one contribution from every rank, in rank order. contributions[me.rank] is this
/// rank's own input.
void combine_in_rank_order(Member& me, std::span<const ChunkSet> contributions, ChunkSet dst,
                           bool dst_is_own);

/// Sends or receives several sets at once. Set i is a message on lane i, so no set waits for
/// another. Both ends name sets of the same sizes in the same order.
void send_sets(Member& me, std::span<const ChunkSet> sets, Rank peer);
void recv_sets(Member& me, std::span<const ChunkSet> sets, Rank peer);

/// Sends or receives a run of blocks that may wrap around from the last block to block 0. Then the
/// run is two messages, the second on lane 1, so neither waits for the other. Both ends split at
/// the same block. Blocks are chunks of `space`, so a block must be one chunk.
struct BlockRun {
  ir::Space space = ir::Space::kOutput;
  Rank first = 0;  ///< already wrapped: 0 .. n-1
  Rank count = 0;  ///< 0 .. n
};
void send_run(Member& me, BlockRun run, Rank peer);
void recv_run(Member& me, BlockRun run, Rank peer);
/// The one or two contiguous parts of a run.
std::vector<ChunkSet> parts_of(BlockRun run, Rank ranks);

/// Receives every other rank's contribution to `like` into scratch. Inserts `own` at its place.
std::vector<ChunkSet> receive_contributions(Member& me, ChunkSet like, ChunkSet own);

/// The chunk, or block, that rank or position `owner` owns, if there are n of them.
constexpr std::uint32_t chunk_of(Rank owner) { return static_cast<std::uint32_t>(owner); }
/// Each rank sends chunk p of its input to rank p. Returns all ranks' contributions to this rank's
/// own chunk, in rank order.
std::vector<ChunkSet> exchange_contributions(Member& me);
/// Receives the other chunks of the output, each from its owner.
void receive_from_owners(Member& me);

}  // namespace tutti::algorithms
