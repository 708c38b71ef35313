#include "algorithms/member.hpp"

#include <algorithm>

#include "src/base/result.hpp"

namespace tutti::algorithms {
Rank Member::away(Rank distance) const { return wrap(rank + distance, ranks); }

Rank Member::from_root() const { return wrap(rank - request.root, ranks); }

ir::Schedule generate(const ir::Request& request, std::string_view algorithm,
                      std::uint32_t chunks_per_block, RankProgram program) {
  ir::Builder builder(request, algorithm, chunks_per_block);
  for (Rank rank = 0; rank < request.ranks; ++rank) {
    Member me{request, rank, request.ranks, builder.rank(rank)};
    if (request.ranks == 1) {
      me.program.copy(in(0, chunks_per_block), out(0, chunks_per_block));
    } else {
      program(me);
    }
  }
  return std::move(builder).finish();
}

bool well_formed(const ir::Request& request) {
  const Rank roots = rooted(request.collective) ? request.ranks : 1;
  const bool root_exists = request.root >= 0 && request.root < roots;
  const bool place_defined = !request.in_place || request.collective != Collective::kAllToAll;
  return request.ranks >= 1 && root_exists && place_defined;
}

Error unsupported(std::string_view algorithm, const ir::Request& request) {
  return make_error(Code::kUnsupported,
                    "algorithm {} cannot do {} over {} ranks from root {}{}: choose another one "
                    "(`tutti algo list` shows what each can do)",
                    algorithm, name_of(request.collective), request.ranks, request.root,
                    request.in_place ? " in place" : "");
}

void send_to_all(Member& me, ChunkSet src) {
  for (Rank distance = 1; distance < me.ranks; ++distance) {
    me.program.send(src, me.away(distance));
  }
}

void combine(Member& me, Parts parts, ChunkSet dst, bool dst_is_own) {
  if (dst_is_own && parts.own != 0) {
    const ChunkSet saved = me.program.scratch(parts.in_order[parts.own]);
    me.program.copy(parts.in_order[parts.own], saved);
    parts.in_order[parts.own] = saved;
  }
  me.program.copy(parts.in_order.front(), dst);
  for (std::size_t i = 1; i < parts.in_order.size(); ++i) {
    me.program.reduce(parts.in_order[i], dst);
  }
}

void combine_in_rank_order(Member& me, std::span<const ChunkSet> contributions, ChunkSet dst,
                           bool dst_is_own) {
  combine(me, {{contributions.begin(), contributions.end()}, static_cast<std::size_t>(me.rank)},
          dst, dst_is_own);
}

std::vector<ChunkSet> parts_of(BlockRun run, Rank ranks) {
  std::vector<ChunkSet> parts;
  const Rank before_wrap = std::min(run.count, ranks - run.first);
  const auto append = [&](Rank first, Rank count) {
    if (count == 0) return;
    parts.push_back(
        {run.space, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(count), 1});
  };
  append(run.first, before_wrap);
  append(0, run.count - before_wrap);
  return parts;
}

void send_sets(Member& me, std::span<const ChunkSet> sets, Rank peer) {
  Lane lane = 0;
  for (const ChunkSet set : sets) me.program.send(set, peer, lane++);
}

void recv_sets(Member& me, std::span<const ChunkSet> sets, Rank peer) {
  Lane lane = 0;
  for (const ChunkSet set : sets) me.program.recv(set, peer, lane++);
}

void send_run(Member& me, BlockRun run, Rank peer) { send_sets(me, parts_of(run, me.ranks), peer); }

void recv_run(Member& me, BlockRun run, Rank peer) { recv_sets(me, parts_of(run, me.ranks), peer); }

std::vector<ChunkSet> receive_contributions(Member& me, ChunkSet like, ChunkSet own) {
  std::vector<ChunkSet> contributions(static_cast<std::size_t>(me.ranks), own);
  for (Rank peer = 0; peer < me.ranks; ++peer) {
    if (peer == me.rank) continue;
    const ChunkSet arrived = me.program.scratch(like, own.format);
    me.program.recv(arrived, peer);
    contributions[static_cast<std::size_t>(peer)] = arrived;
  }
  return contributions;
}

std::vector<ChunkSet> exchange_contributions(Member& me) {
  for (Rank distance = 1; distance < me.ranks; ++distance) {
    const Rank owner = me.away(distance);
    me.program.send(in(chunk_of(owner)), owner);
  }
  const ChunkSet own = in(chunk_of(me.rank));
  return receive_contributions(me, own, own);
}

void receive_from_owners(Member& me) {
  for (Rank distance = 1; distance < me.ranks; ++distance) {
    const Rank owner = me.away(-distance);
    me.program.recv(out(chunk_of(owner)), owner);
  }
}

}  // namespace tutti::algorithms
