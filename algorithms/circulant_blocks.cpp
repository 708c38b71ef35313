// Circulant blocks: a pipelined broadcast, and backwards a reduce, for any number of ranks. It
// takes the fewest rounds possible if a rank sends and receives one block at a time.
//
// Words: v is a rank's position counted from the root, L = ceil(log2 n), and the vector is cut into
// q blocks. skip[L] = n and skip[k] = ceil(skip[k+1] / 2), down to skip[0] = 1. Rounds are numbered
// k = 0 .. L-1 repeatedly; L rounds are a sweep. In round k position v sends a block to v + skip[k]
// and receives one from v - skip[k]. Block numbers are relative to the sweep: the offset grows by L
// with each sweep. To reach v > 0 from 0, take the largest skips that fit. The index of the last
// skip taken is the base block of v. In its first sweep v gets only this block as a new,
// non-negative one. Negative numbers are blocks of an earlier sweep, and are left out if there was
// none. Numbers of q and more mean block q-1.
//
//   collective   rounds     bytes sent by the busiest rank
//   broadcast    q-1 + L    S (q-1+L)/q, the root
//   reduce       q-1 + L    S
//
// Wins: for broadcasts and reductions of large messages at any n. A chain needs n-2+q rounds, a
// binomial tree L + (q-1) L. A reduce rounds once for each of the at most n-1 additions on the way.
//
// Source: Traeff, "Optimal Broadcast Schedules in Logarithmic Time with Applications to Broadcast,
// All-Broadcast, Reduction and All-Reduction" (arXiv 2407.18004). The receive schedule is found
// here by plain search: O(n) per rank instead of O(log n), but simple.
#include <algorithm>

#include "algorithms/algorithms.hpp"
#include "algorithms/member.hpp"

namespace tutti::algorithms {
namespace circulant_blocks_parts {

/// Blocks of the vector. Four sweeps' worth keeps what the root sends below 5/4 S.
std::uint32_t blocks_for(Rank ranks) {
  return std::max(1U, 4 * ceil_log2(static_cast<std::uint32_t>(ranks)));
}

/// The circulant graph over n positions and its block numbers.
class Circulant {
 public:
  explicit Circulant(Rank ranks)
      : ranks_(ranks), rounds_(static_cast<int>(ceil_log2(static_cast<std::uint32_t>(ranks)))) {
    skips_.assign(static_cast<std::size_t>(rounds_) + 1, ranks);
    for (int k = rounds_ - 1; k >= 0; --k) skips_[index(k)] = (skip(k + 1) + 1) / 2;
    base_.resize(static_cast<std::size_t>(ranks));
    for (Rank position = 0; position < ranks; ++position) {
      base_[index(position)] = find_base(position);
    }
  }

  [[nodiscard]] int rounds() const { return rounds_; }
  [[nodiscard]] Rank skip(int k) const { return skips_[index(k)]; }

  /// The blocks that `position` receives in rounds 0 .. L-1 of a sweep, relative to its offset.
  /// Round k brings the largest base block not yet taken that is found between skip[k] and
  /// skip[k+1] places before `position`; the far end counts only if nothing else is left.
  [[nodiscard]] std::vector<int> received(Rank position) const {
    std::vector<bool> taken(static_cast<std::size_t>(rounds_) + 1, false);
    taken[index(base(position))] = true;
    std::vector<int> blocks;
    for (int k = 0; k < rounds_; ++k) {
      int best = -1;
      for (Rank back = skip(k); back < skip(k + 1); ++back) {
        const int block = base(position - back);
        if (!taken[index(block)]) best = std::max(best, block);
      }
      if (best < 0) best = base(position - skip(k + 1));
      taken[index(best)] = true;
      // The root's base block L stands for the new block that comes from it.
      blocks.push_back(best == rounds_ ? base(position) : best - rounds_);
    }
    return blocks;
  }

  /// The blocks that `position` sends: what its receivers receive.
  [[nodiscard]] std::vector<int> sent(Rank position) const {
    std::vector<int> blocks;
    blocks.reserve(static_cast<std::size_t>(rounds_));
    for (int k = 0; k < rounds_; ++k) {
      blocks.push_back(received((position + skip(k)) % ranks_)[index(k)]);
    }
    return blocks;
  }

 private:
  static std::size_t index(int k) { return static_cast<std::size_t>(k); }

  /// By position, which may be up to n below zero.
  [[nodiscard]] int base(Rank position) const { return base_[index((position + ranks_) % ranks_)]; }

  [[nodiscard]] int find_base(Rank position) const {
    int last = rounds_;
    for (int k = rounds_ - 1; k >= 0 && position > 0; --k) {
      if (position < skip(k)) continue;
      position -= skip(k);
      last = k;
    }
    return last;
  }

  Rank ranks_;
  int rounds_;
  std::vector<Rank> skips_;
  std::vector<int> base_;
};

/// One message of the broadcast, seen from one rank.
struct Transfer {
  Rank peer = kNoRank;  ///< kNoRank: nothing moves
  std::uint32_t block = 0;
};
struct BlockExchange {
  Transfer send, receive;
};

/// All rounds of the broadcast for one rank, in order.
std::vector<BlockExchange> broadcast_rounds(const Member& me) {
  const Circulant graph(me.ranks);
  const int sweep = graph.rounds();
  const auto blocks = static_cast<int>(blocks_for(me.ranks));
  const Rank position = me.from_root();
  const std::vector<int> sent = graph.sent(position);
  const std::vector<int> received = graph.received(position);
  // Rounds are dropped at the start, where nothing would move, so that the last sweep is whole.
  const int dropped = (sweep - (blocks - 1) % sweep) % sweep;

  const auto transfer = [&](int relative, int offset, Rank peer) -> Transfer {
    const int block = std::min(relative + offset, blocks - 1);
    if (block < 0) return {};
    return {peer, static_cast<std::uint32_t>(block)};
  };
  std::vector<BlockExchange> rounds;
  for (int round = dropped; round < dropped + blocks - 1 + sweep; ++round) {
    const int k = round % sweep;
    const int offset = round - k - dropped;
    const auto at = static_cast<std::size_t>(k);
    BlockExchange exchange;
    const bool to_root = position + graph.skip(k) == me.ranks;
    if (!to_root) exchange.send = transfer(sent[at], offset, me.away(graph.skip(k)));
    if (position > 0) exchange.receive = transfer(received[at], offset, me.away(-graph.skip(k)));
    rounds.push_back(exchange);
  }
  return rounds;
}

void broadcast(Member& me) {
  for (const auto& [send, receive] : broadcast_rounds(me)) {
    if (send.peer != kNoRank) {
      me.program.send(me.is_root() ? in(send.block) : out(send.block), send.peer);
    }
    if (receive.peer != kNoRank) me.program.recv(out(receive.block), receive.peer);
  }
  if (me.is_root()) {
    const std::uint32_t blocks = blocks_for(me.ranks);
    me.program.copy(in(0, blocks), out(0, blocks));
  }
}

/// Adds what arrives from `peer` to the sum of a block; the root's sums are in the output.
void add_from(Member& me, Rank peer, ChunkSet& sum, std::uint32_t block) {
  const ChunkSet arrived = me.program.scratch(in(block));
  me.program.recv(arrived, peer);
  if (me.is_root()) {
    me.program.copy(sum, out(block)).reduce(arrived, out(block));
    sum = out(block);
  } else if (sum == in(block)) {
    me.program.reduce(sum, arrived);
    sum = arrived;
  } else {
    me.program.reduce(arrived, sum);
  }
}

/// The broadcast backwards: last round first, and each message from its receiver to its sender.
void reduce(Member& me) {
  std::vector<ChunkSet> sums(blocks_for(me.ranks));
  for (std::uint32_t block = 0; block < sums.size(); ++block) sums[block] = in(block);
  std::vector<BlockExchange> rounds = broadcast_rounds(me);
  std::ranges::reverse(rounds);
  for (const auto& [from, to] : rounds) {
    if (to.peer != kNoRank) me.program.send(sums[to.block], to.peer);
    if (from.peer != kNoRank) add_from(me, from.peer, sums[from.block], from.block);
  }
}

bool supports(const ir::Request& request) {
  return well_formed(request) && (request.collective == Collective::kBroadcast ||
                                  request.collective == Collective::kReduce);
}

Result<ir::Schedule> generate(const ir::Request& request) {
  if (!supports(request)) return unsupported("circulant_blocks", request);
  return generate(request, "circulant_blocks", blocks_for(request.ranks),
                  request.collective == Collective::kBroadcast ? broadcast : reduce);
}

}  // namespace circulant_blocks_parts

ir::Algorithm circulant_blocks() {
  using namespace circulant_blocks_parts;
  return {.name = "circulant_blocks",
          .summary = "pipelined broadcast and reduce in the fewest one-port rounds, any n",
          .supports = supports,
          .generate = generate};
}

}  // namespace tutti::algorithms
