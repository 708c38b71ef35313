// Two-shot with bfloat16 on the wire: the two-shot all-reduce for float32 data. All data is encoded
// before it travels, so it takes half the bytes.
//
// Words: as in two_shot, rank r owns chunk r of n. The sender encodes a contribution and the owner
// decodes it. The owner's own contribution is encoded and decoded, too, so a sum does not depend on
// who owns it. The owner adds the n contributions in float32 in rank order, encodes the sum once
// and sends it to all. Every rank, including the owner, decodes the encoded sum, so all ranks get
// the same bits.
//
//   collective    rounds   bytes sent by each rank
//   all_reduce    2        S (n-1)/n
//
// Wins: for large float32 messages if the wire is the limit and 8 bits of mantissa are enough. Each
// contribution, and the sum, is rounded to bfloat16 once, for any n.
//
// Source: two-shot as in two_shot.cpp; the order of encode and add as in the quantised all-reduce
// of Flash Communication (arXiv 2412.04964).
#include "algorithms/algorithms.hpp"
#include "algorithms/member.hpp"

namespace tutti::algorithms {
namespace two_shot_bf16_parts {

constexpr std::string_view kFormat = "bf16";

/// Fresh scratch that holds `plain` in the format.
ChunkSet formatted(Member& me, ChunkSet plain) {
  const ChunkSet code = me.program.scratch(plain, me.program.format(kFormat));
  me.program.copy(plain, code);
  return code;
}

/// Fresh scratch that holds what `code` stands for.
ChunkSet plain(Member& me, ChunkSet code) {
  const ChunkSet values = me.program.scratch(code);
  me.program.copy(code, values);
  return values;
}

/// The first round: contributions to this rank's chunk from all ranks, as they came over the wire.
std::vector<ChunkSet> exchange_formatted(Member& me) {
  for (Rank distance = 1; distance < me.ranks; ++distance) {
    const Rank owner = me.away(distance);
    me.program.send(formatted(me, in(chunk_of(owner))), owner);
  }
  const ChunkSet own = in(chunk_of(me.rank));
  std::vector<ChunkSet> contributions = receive_contributions(me, own, formatted(me, own));
  for (ChunkSet& contribution : contributions) contribution = plain(me, contribution);
  return contributions;
}

void all_reduce(Member& me) {
  const auto contributions = exchange_formatted(me);
  const ChunkSet sum = out(chunk_of(me.rank));
  combine_in_rank_order(me, contributions, sum, false);
  const ChunkSet code = formatted(me, sum);
  send_to_all(me, code);
  me.program.copy(code, sum);
  for (Rank distance = 1; distance < me.ranks; ++distance) {
    const Rank owner = me.away(-distance);
    const ChunkSet result = out(chunk_of(owner));
    const ChunkSet arrived = me.program.scratch(result, code.format);
    me.program.recv(arrived, owner).copy(arrived, result);
  }
}

bool supports(const ir::Request& request) {
  return well_formed(request) && request.collective == Collective::kAllReduce;
}

Result<ir::Schedule> generate(const ir::Request& request) {
  if (!supports(request)) return unsupported("two_shot_bf16", request);
  return generate(request, "two_shot_bf16", static_cast<std::uint32_t>(request.ranks), all_reduce);
}

/// Chunks in bfloat16 are half as long as plain ones.
ir::Cost cost(const ir::Request& request) {
  const auto n = static_cast<std::uint64_t>(request.ranks);
  ir::Cost cost = cost_of(request, 2, n - 1, n);
  cost.lossy_steps = n > 1 ? 2 : 0;
  return cost;
}

}  // namespace two_shot_bf16_parts

ir::Algorithm two_shot_bf16() {
  using namespace two_shot_bf16_parts;
  return {.name = "two_shot_bf16",
          .summary = "two_shot for float32 with bfloat16 on the wire: half the bytes, lossy",
          .supports = supports,
          .generate = generate,
          .cost = cost,
          .lossy = true};
}

}  // namespace tutti::algorithms
