// What an algorithm is asked for: the shape of a collective, without a message size.
//
// Words used throughout src/ir, src/lower and algorithms:
//   chunk   the unit that a schedule moves. A schedule divides buffers into chunks and never
//           mentions bytes. src/ir/chunking.hpp maps chunks to elements once the count is known.
//   block   the part of a buffer that belongs to one rank (all-gather, all-to-all ...): a run of
//           `chunks_per_block` consecutive chunks.
//   space   one of a rank's three memories: input, output, scratch.
#pragma once

#include <cstdint>

#include "src/ir/layout.hpp"
#include "tutti/types.hpp"

namespace tutti::ir {

/// The shape of a collective. Value; equal requests have equal schedules.
struct Request {
  Collective collective = Collective::kAllReduce;
  std::int32_t ranks = 1;
  Rank root = 0;          ///< meaningful when rooted(collective), else 0
  bool in_place = false;  ///< input and output overlap by NCCL's rules (Buffers below)
  Layout layout = {};     ///< for algorithms that distinguish near and far ranks

  friend bool operator==(const Request&, const Request&) = default;
};

/// Number of blocks in the input and the output of `rank`. A vector that is not split by rank
/// (all-reduce, broadcast, reduce) is one block. 0: this rank has no such buffer.
///
///   all_reduce      in 1, out 1           all_gather   in 1, out n (block r is rank r's input)
///   broadcast       in 1 (root), out 1    reduce_scatter in n, out 1
///   reduce          in 1, out 1 (root)    all_to_all   in n, out n
///   gather          in 1, out n (root)    scatter      in n (root), out 1
struct BlockCounts {
  std::int32_t input = 0;
  std::int32_t output = 0;
};
BlockCounts block_counts(const Request& request, Rank rank);

/// Number of blocks in the largest buffer of any rank, at least 1. Chunk numbers are smaller than
/// this times `chunks_per_block`.
std::int32_t largest_block_count(const Request& request);

/// Which blocks overlap with request.in_place. If the output is at least as large, input block 0
/// overlaps one output block: all_gather, block `rank`; gather, the root's own; else block 0. If
/// the input is larger (reduce_scatter, scatter), output block 0 overlaps one input block. `exists`
/// is false if this rank's buffers do not overlap (non-roots of gather and scatter), or if in-place
/// is not defined (all_to_all).
struct Aliasing {
  bool exists = false;
  std::int32_t input_block = 0;
  std::int32_t output_block = 0;
  std::int32_t blocks = 0;
};
Aliasing aliasing(const Request& request, Rank rank);

}  // namespace tutti::ir
