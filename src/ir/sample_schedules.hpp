// Small, simple and correct schedules for tests, one for every collective.
#pragma once

#include <utility>

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
