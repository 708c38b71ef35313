// Small, simple and correct schedules for tests, one for every collective.
#pragma once

#include <utility>
#include <vector>

#include "src/ir/builder.hpp"

namespace tutti::ir::samples {

/// What rank `from` contributes to rank `to`: `src` in its input goes to `dst` in the other's
/// output. Count 0: nothing.
struct Part {
  ChunkSet src, dst;
};

inline Part part(const Request& request, std::uint32_t per_block, Rank from, Rank to) {
  const auto block = [&](Rank rank) { return static_cast<std::uint32_t>(rank) * per_block; };
  switch (request.collective) {
    case Collective::kAllReduce:
      return {in(0, per_block), out(0, per_block)};
    case Collective::kReduceScatter:
      return {in(block(to), per_block), out(0, per_block)};
    case Collective::kAllGather:
      return {in(0, per_block), out(block(from), per_block)};
    case Collective::kAllToAll:
      return {in(block(to), per_block), out(block(from), per_block)};
    case Collective::kBroadcast:
      return from == request.root ? Part{in(0, per_block), out(0, per_block)} : Part{};
    case Collective::kScatter:
      return from == request.root ? Part{in(block(to), per_block), out(0, per_block)} : Part{};
    case Collective::kReduce:
      return to == request.root ? Part{in(0, per_block), out(0, per_block)} : Part{};
    case Collective::kGather:
      return to == request.root ? Part{in(0, per_block), out(block(from), per_block)} : Part{};
    case Collective::kSend:
    case Collective::kRecv:
      break;
  }
  return {};
}

/// Every rank sends its part directly to every rank that wants it, in a format "wire" if asked.
inline Schedule direct(const Request& request, std::uint32_t per_block, bool formatted = false) {
  Builder build(request, "direct", per_block);
  const FormatId format = formatted ? build.format("wire") : kPlain;
  for (Rank rank = 0; rank < request.ranks; ++rank) {
    auto program = build.rank(rank);
    for (Rank peer = 0; peer < request.ranks; ++peer) {
      const ChunkSet src = part(request, per_block, rank, peer).src;
      if (peer == rank || src.count == 0) continue;
      if (formatted) {
        const ChunkSet converted = program.scratch(src, format);
        program.copy(src, converted).send(converted, peer);
      } else {
        program.send(src, peer);
      }
    }
    const Part own = part(request, per_block, rank, rank);
    if (own.src.count != 0) program.copy(own.src, own.dst);
    for (Rank peer = 0; peer < request.ranks; ++peer) {
      const ChunkSet dst = part(request, per_block, peer, rank).dst;
      if (peer == rank || dst.count == 0) continue;
      const bool adds = reduces(request.collective);
      const ChunkSet landing = adds || formatted ? program.scratch(dst, format) : dst;
      program.recv(landing, peer);
      if (adds)
        program.reduce(landing, dst);
      else if (formatted)
        program.copy(landing, dst);
    }
  }
  return std::move(build).finish();
}

/// Reduce-scatter around the ring, then all-gather around it: chunk c goes round twice.
inline Schedule ring_all_reduce(std::int32_t ranks, bool in_place) {
  const auto chunk = [&](Rank index) {
    return static_cast<std::uint32_t>((index % ranks + ranks) % ranks);
  };
  Builder build({Collective::kAllReduce, ranks, 0, in_place}, "ring",
                static_cast<std::uint32_t>(ranks));
  for (Rank rank = 0; rank < ranks; ++rank) {
    auto program = build.rank(rank);
    const Rank next = (rank + 1) % ranks;
    const Rank previous = (rank + ranks - 1) % ranks;
    program.copy(in(0, chunk(-1) + 1), out(0, chunk(-1) + 1));
    for (Rank t = 0; t + 1 < ranks; ++t) {
      const ChunkSet incoming = out(chunk(rank - t - 1));
      const ChunkSet landing = program.scratch(incoming);
      program.send(out(chunk(rank - t)), next).recv(landing, previous).reduce(landing, incoming);
    }
    for (Rank t = 0; t + 1 < ranks; ++t)
      program.send(out(chunk(rank + 1 - t)), next).recv(out(chunk(rank - t)), previous);
  }
  return std::move(build).finish();
}

/// The network does it: one operation of all ranks. For the collectives of kGroupCollectives.
inline Schedule by_the_network(const Request& request, std::uint32_t per_block) {
  Builder build(request, "by_the_network", per_block);
  std::vector<Rank> everyone;
  for (Rank rank = 0; rank < request.ranks; ++rank) everyone.push_back(rank);
  const GroupId group = build.group(everyone);
  const auto blocks = static_cast<std::uint32_t>(request.ranks) * per_block;
  for (Rank rank = 0; rank < request.ranks; ++rank) {
    auto program = build.rank(rank);
    const bool is_root = rank == request.root;
    switch (request.collective) {
      case Collective::kAllReduce:
        program.group_reduce(in(0, per_block), out(0, per_block), group);
        break;
      case Collective::kReduce:
        program.group_reduce(in(0, per_block), is_root ? out(0, per_block) : ChunkSet{}, group);
        break;
      case Collective::kReduceScatter:
        program.group_reduce(in(0, blocks), out(0, per_block), group);
        break;
      case Collective::kAllGather:
        program.multicast(in(0, per_block), out(0, blocks), group);
        break;
      default:
        program.multicast(is_root ? in(0, per_block) : ChunkSet{},
                          is_root ? ChunkSet{} : out(0, per_block), group);
        if (is_root) program.copy(in(0, per_block), out(0, per_block));
    }
  }
  return std::move(build).finish();
}
inline constexpr Collective kGroupCollectives[] = {Collective::kAllReduce, Collective::kReduce,
                                                   Collective::kReduceScatter,
                                                   Collective::kAllGather, Collective::kBroadcast};

/// An all-reduce of four chunks, which take turns at two trees of the network.
inline Schedule on_two_trees(std::int32_t ranks, bool in_place) {
  Builder build({Collective::kAllReduce, ranks, 0, in_place}, "two_trees", 4);
  std::vector<Rank> everyone;
  for (Rank rank = 0; rank < ranks; ++rank) everyone.push_back(rank);
  const GroupId trees[] = {build.group(everyone, 0), build.group(everyone, 1)};
  for (Rank rank = 0; rank < ranks; ++rank)
    for (std::uint32_t chunk = 0; chunk < 4; ++chunk)
      build.rank(rank).group_reduce(in(chunk), out(chunk), trees[chunk % 2]);
  return std::move(build).finish();
}

/// Pairs of neighbours reduce-scatter, then ranks of the same parity all-reduce, and pairs gather:
/// each rank is a member of two groups. `ranks`: even, from 4.
inline Schedule in_two_levels(std::int32_t ranks, bool in_place) {
  Builder build({Collective::kAllReduce, ranks, 0, in_place}, "two_levels", 2);
  std::vector<Rank> rails[2];
  for (Rank rank = 0; rank < ranks; ++rank) rails[rank % 2].push_back(rank);
  for (Rank rank = 0; rank < ranks; ++rank) {
    const Rank first = rank - rank % 2;
    const GroupId pair = build.group(std::vector<Rank>{first, first + 1});
    const GroupId rail = build.group(rails[rank % 2]);
    const auto own = static_cast<std::uint32_t>(rank % 2);
    auto program = build.rank(rank);
    program.group_reduce(in(0, 2), out(own), pair);
    program.group_reduce(out(own), out(own), rail);
    program.multicast(out(own), out(0, 2), pair);
  }
  return std::move(build).finish();
}

inline constexpr Collective kGlobalCollectives[] = {
    Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
    Collective::kBroadcast, Collective::kReduce,    Collective::kAllToAll,
    Collective::kGather,    Collective::kScatter};

/// Rank 0 puts the data of rank 1, then that of rank 2, in its place: one copy each, in this
/// program order.
inline Schedule gather_in_turn() {
  Builder build({Collective::kGather, 3, 0, false}, "gather in turn", 1);
  auto root = build.rank(0);
  root.copy(in(0), out(0));
  for (const Rank rank : {1, 2}) {
    build.rank(rank).send(in(0), 0);
    const ChunkSet landing = root.scratch(out(static_cast<std::uint32_t>(rank)));
    root.recv(landing, rank).copy(landing, out(static_cast<std::uint32_t>(rank)));
  }
  return std::move(build).finish();
}

}  // namespace tutti::ir::samples
