// Puts a schedule into a larger one. This is how algorithms nest.
//
// A leaf is a schedule for a few ranks (its members) with buffers of its own. embed() appends its
// steps to the programs of a larger schedule (the whole), and maps each chunk of the leaf to the
// place of that data in the whole. A chunk of the leaf may map to many chunks of the whole, in any
// order, or to none.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "src/ir/builder.hpp"
#include "src/ir/schedule.hpp"
#include "tutti/error.hpp"

namespace tutti::ir {

/// Chunks of one rank, in order. Empty: the leaf's chunk has no data there.
using Region = std::vector<ChunkSet>;

/// The region of these chunks of one space, in as few sets as their order allows.
Region region_of(Space space, std::span<const std::uint32_t> chunks);

/// Where a leaf lies in the whole.
struct Part {
  std::vector<Rank> members;  ///< rank i of the leaf is rank members[i] of the whole
  /// The place of an input or output chunk of `member` (a rank of the leaf). Chunks with equal data
  /// must map to equally many chunks of equal sizes on all members.
  std::function<Region(Rank member, std::uint32_t chunk)> input, output;
};

/// Appends `leaf`, which must be well-formed, as generators make it. Steps that are empty on both
/// sides are left out. A message whose two ends lie differently becomes several messages on extra
/// lanes. Each scratch chunk of the leaf must name the data it will hold, as a chunk of the larger
/// of the leaf's buffers. kUnsupported when the two ends of a step hold different numbers of
/// chunks: such a leaf needs blocks of equal size; and when the data of a group step is not one set
/// of chunks in the whole.
Status embed(const Schedule& leaf, const Part& part, Builder& whole);

}  // namespace tutti::ir
