#include "algorithms/exchange.hpp"

#include <bit>

namespace tutti::algorithms {
namespace {

/// The same chunks of another space; `base` is where that space's chunk 0 lies.
ChunkSet moved_to(ChunkSet base, ChunkSet blocks) {
  return {base.space, base.first + blocks.first, blocks.count, blocks.stride};
}

/// Partial sums, one place for each block, numbered like the blocks.
class Sums {
 public:
  explicit Sums(Member& me)
      : me_(me), base_(me.program.scratch(in(0, static_cast<std::uint32_t>(me.ranks)))) {}

  /// The first message of the reduction: what arrives is put in place and the input added.
  void receive_first(const Exchange& round) {
    std::vector<bool> moved(static_cast<std::size_t>(me_.ranks), false);
    for (const ChunkSet blocks : round.received) mark(blocks, moved);
    Lane lane = 0;
    for (const ChunkSet blocks : round.sent) {
      mark(blocks, moved);
      me_.program.recv(at(blocks), round.to, lane++).reduce(moved_to(in(0), blocks), at(blocks));
    }
    for (std::uint32_t block = 0; block < moved.size(); ++block) {
      if (!moved[block]) me_.program.copy(in(block), at(out(block)));
    }
  }

  void receive(const Exchange& round) {
    Lane lane = 0;
    for (const ChunkSet blocks : round.sent) {
      const ChunkSet arrived = me_.program.scratch(moved_to(in(0), blocks));
      me_.program.recv(arrived, round.to, lane++).reduce(arrived, at(blocks));
    }
  }

  [[nodiscard]] ChunkSet at(ChunkSet blocks) const { return moved_to(base_, blocks); }

 private:
  static void mark(ChunkSet blocks, std::vector<bool>& moved) {
    for (std::uint32_t i = 0; i < blocks.count; ++i) moved[blocks.at(i)] = true;
  }

  Member& me_;
  ChunkSet base_;
};

/// The last message of the reduction completes the rank's own block.
void receive_last(Member& me, const Exchange& round, ChunkSet sum, ChunkSet result) {
  const ChunkSet arrived = me.program.scratch(sum);
  me.program.recv(arrived, round.to).copy(sum, result).reduce(arrived, result);
}

Rank core_size(Rank ranks) {
  return static_cast<Rank>(std::bit_floor(static_cast<std::uint32_t>(ranks)));
}

/// The sum so far of a rank: its input at first, then the output.
struct Sum {
  ChunkSet where = in(0);
  ChunkSet arrived;  // scratch

  void add_from(Member& me, Rank peer) {
    me.program.recv(arrived, peer).copy(where, out(0)).reduce(arrived, out(0));
    where = out(0);
  }
};

}  // namespace

void gather_by(Member& me, std::span<const Exchange> rounds, ChunkSet own) {
  me.program.send(own, rounds.front().to).copy(own, out(static_cast<std::uint32_t>(me.rank)));
  recv_sets(me, rounds.front().received, rounds.front().from);
  for (const Exchange& round : rounds.subspan(1)) {
    send_sets(me, round.sent, round.to);
    recv_sets(me, round.received, round.from);
  }
}

void reduce_by(Member& me, std::span<const Exchange> rounds, ChunkSet result) {
  const auto own = static_cast<std::uint32_t>(me.rank);
  if (rounds.size() == 1) {
    me.program.send(moved_to(in(0), rounds[0].received[0]), rounds[0].from);
    receive_last(me, rounds[0], in(own), result);
    return;
  }
  Sums sums(me);
  for (std::size_t i = rounds.size(); i-- > 0;) {
    const Exchange& round = rounds[i];
    const bool is_first = i + 1 == rounds.size();
    Lane lane = 0;
    for (const ChunkSet blocks : round.received) {
      me.program.send(is_first ? moved_to(in(0), blocks) : sums.at(blocks), round.from, lane++);
    }
    if (is_first) {
      sums.receive_first(round);
    } else if (i > 0) {
      sums.receive(round);
    } else {
      receive_last(me, round, sums.at(out(own)), result);
    }
  }
}

void all_reduce_by(Member& me, std::span<const Exchange> rounds) {
  const ChunkSet own = out(static_cast<std::uint32_t>(me.rank));
  reduce_by(me, rounds, own);
  gather_by(me, rounds, own);
}

namespace {

RankProgram program_of(Collective collective, const ReduceAndGather& programs) {
  switch (collective) {
    case Collective::kReduceScatter:
      return programs.reduce_scatter;
    case Collective::kAllGather:
      return programs.all_gather;
    case Collective::kAllReduce:
      return programs.all_reduce;
    default:
      return nullptr;
  }
}

bool supports(const ir::Request& request, const ReduceAndGather& programs) {
  return well_formed(request) && program_of(request.collective, programs) != nullptr &&
         (!programs.even_ranks || request.ranks == 1 || request.ranks % 2 == 0);
}

}  // namespace

ir::Algorithm algorithm_of(std::string_view name, std::string_view summary,
                           const ReduceAndGather& programs) {
  return {
      .name = name,
      .summary = summary,
      .supports = [programs](const ir::Request& request) { return supports(request, programs); },
      .generate = [name, programs](const ir::Request& request) -> Result<ir::Schedule> {
        if (!supports(request, programs)) return unsupported(name, request);
        const bool one_vector = request.collective == Collective::kAllReduce;
        return generate(request, name, one_vector ? static_cast<std::uint32_t>(request.ranks) : 1,
                        program_of(request.collective, programs));
      }};
}

std::vector<ChunkSet> as_sets(ir::Space space, std::span<const std::uint32_t> ascending) {
  std::vector<ChunkSet> sets;
  for (const std::uint32_t chunk : ascending) {
    ChunkSet* const last = sets.empty() ? nullptr : &sets.back();
    if (last != nullptr && last->count == 1) last->stride = chunk - last->first;
    if (last != nullptr && chunk == last->at(last->count)) {
      ++last->count;
    } else {
      sets.push_back({space, chunk, 1, 1});
    }
  }
  return sets;
}

void reduce_by_doubling(Member& me, Rank (*partner)(Rank rank, std::uint32_t step, Rank p)) {
  const Rank core = core_size(me.ranks);
  if (me.rank >= core) {
    const Rank proxy = me.rank - core;
    me.program.send(in(0), proxy).recv(out(0), proxy);
    return;
  }
  const Rank extra = me.rank + core;
  Sum sum{.arrived = me.program.scratch(out(0))};
  if (extra < me.ranks) sum.add_from(me, extra);
  const std::uint32_t steps = ceil_log2(static_cast<std::uint32_t>(core));
  for (std::uint32_t step = 0; step < steps; ++step) {
    const Rank peer = partner(me.rank, step, core);
    me.program.send(sum.where, peer);
    sum.add_from(me, peer);
  }
  if (extra < me.ranks) me.program.send(out(0), extra);
}

}  // namespace tutti::algorithms
