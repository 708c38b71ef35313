// Circulant: reduce-scatter, all-gather and all-reduce with the fewest rounds and bytes, for any
// number of ranks.
//
// Words: rank r numbers blocks from its own: its block i is block (r+i) mod n of the vector. A
// reduce-scatter starts with s = n partial sums at each rank. A round that starts with s of them
// keeps the first h = ceil(s/2) and sends the other s-h to rank r+h, whose first s-h blocks these
// are. It adds what arrives from r-h to its own first s-h. After L = ceil(log2 n) rounds block 0,
// the rank's own, is complete. The all-gather is the same backwards. Distances are the same for all
// ranks, so the links used form a circulant graph.
//
//   collective       rounds   bytes sent by each rank
//   reduce_scatter   L        S (n-1)/n
//   all_gather       L        S (n-1)/n
//   all_reduce       2 L      2 S (n-1)/n
//
// Wins: for medium sizes at every n, if distance in the network does not matter. Unlike
// rabenseifner it loses nothing if n is not a power of two. One rank finishes each block, so all
// ranks get the same bits. Each round rounds once.
//
// Source: Traeff, "Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms"
// (arXiv 2410.14234).
#include "algorithms/algorithms.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/member.hpp"

namespace tutti::algorithms {
namespace circulant_parts {

using ir::Space;

/// One round: `held` partial sums become `kept`, and held - kept of them change hands.
struct Round {
  Rank held;
  Rank kept;
  [[nodiscard]] Rank moved() const { return held - kept; }
};

/// The rounds of the reduce-scatter, in order.
std::vector<Round> rounds_of(Rank ranks) {
  std::vector<Round> rounds;
  for (Rank held = ranks; held > 1; held = rounds.back().kept) {
    rounds.push_back({held, (held + 1) / 2});
  }
  return rounds;
}

/// `count` blocks from my block `first` on, where they lie in `space`.
BlockRun my_blocks(const Member& me, Space space, Rank first, Rank count) {
  return {space, me.away(first), count};
}

/// The first `count` chunks of a set.
ChunkSet head(ChunkSet set, Rank count) {
  set.count = static_cast<std::uint32_t>(count);
  return set;
}

/// The chunks of a set from position `first` to before position `end`.
ChunkSet slice(ChunkSet set, Rank first, Rank end) {
  set.first = set.at(static_cast<std::uint32_t>(first));
  return head(set, end - first);
}

/// The first round: what is sent lies in the input and what is kept moves to scratch, in the order
/// of my numbering, so that from then on every message is one piece.
ChunkSet first_round(Member& me, Round round) {
  const Rank kept = round.kept;
  send_run(me, my_blocks(me, Space::kInput, kept, round.moved()), me.away(kept));
  ChunkSet sums{Space::kScratch, 0, 0, 1};
  Lane lane = 0;
  for (const ChunkSet own : parts_of(my_blocks(me, Space::kInput, 0, round.moved()), me.ranks)) {
    const ChunkSet arrived = me.program.scratch(own);
    me.program.recv(arrived, me.away(-kept), lane++).reduce(own, arrived);
    if (sums.count == 0) sums = arrived;
  }
  if (kept > round.moved()) {
    const ChunkSet own = in(static_cast<std::uint32_t>(me.away(round.moved())));
    me.program.copy(own, me.program.scratch(own));
  }
  return head(sums, kept);
}

/// Block 0 is left: it is complete with one more contribution, and goes to `result`.
void last_round(Member& me, ChunkSet block, ChunkSet moving, ChunkSet result) {
  const ChunkSet arrived = me.program.scratch(block);
  me.program.send(moving, me.away(1)).recv(arrived, me.away(-1));
  me.program.copy(block, result).reduce(arrived, result);
}

void reduce_to(Member& me, ChunkSet result) {
  const std::vector<Round> rounds = rounds_of(me.ranks);
  if (rounds.size() == 1) {
    last_round(me, in(static_cast<std::uint32_t>(me.rank)),
               in(static_cast<std::uint32_t>(me.away(1))), result);
    return;
  }
  const ChunkSet sums = first_round(me, rounds.front());
  const ChunkSet arriving =
      rounds.size() > 2 ? me.program.scratch(head(sums, rounds[1].moved())) : ChunkSet{};
  for (std::size_t i = 1; i + 1 < rounds.size(); ++i) {
    const Round round = rounds[i];
    const ChunkSet arrived = head(arriving, round.moved());
    me.program.send(slice(sums, round.kept, round.held), me.away(round.kept));
    me.program.recv(arrived, me.away(-round.kept)).reduce(arrived, head(sums, round.moved()));
  }
  last_round(me, head(sums, 1), slice(sums, 1, 2), result);
}

/// Starts with `own` at my block 0 of the output and ends with all blocks of the output.
void gather_from(Member& me, ChunkSet own) {
  const std::vector<Round> rounds = rounds_of(me.ranks);
  me.program.send(own, me.away(-1)).copy(own, out(static_cast<std::uint32_t>(me.rank)));
  recv_run(me, my_blocks(me, Space::kOutput, 1, 1), me.away(1));
  for (std::size_t i = rounds.size() - 1; i-- > 0;) {
    const Round round = rounds[i];
    send_run(me, my_blocks(me, Space::kOutput, 0, round.moved()), me.away(-round.kept));
    recv_run(me, my_blocks(me, Space::kOutput, round.kept, round.moved()), me.away(round.kept));
  }
}

void reduce_scatter(Member& me) { reduce_to(me, out(0)); }

void all_gather(Member& me) { gather_from(me, in(0)); }

void all_reduce(Member& me) {
  const ChunkSet own = out(static_cast<std::uint32_t>(me.rank));
  reduce_to(me, own);
  gather_from(me, own);
}

}  // namespace circulant_parts

ir::Algorithm circulant() {
  using namespace circulant_parts;
  return algorithm_of("circulant",
                      "fewest rounds and fewest bytes at once, for any number of ranks",
                      {reduce_scatter, all_gather, all_reduce});
}

}  // namespace tutti::algorithms
