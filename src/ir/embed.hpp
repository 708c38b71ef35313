// Makes a schedule a part of a larger one: how algorithms nest.
//
// A leaf is a schedule of its own for a few ranks, its members, and for buffers of its own. embed()
// appends its steps to the programs of a larger schedule, and puts every chunk of the leaf where
// the larger one keeps that data. A chunk of the leaf may be many chunks of the whole, in any
// order, or none at all.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "src/ir/builder.hpp"
#include "src/ir/schedule.hpp"
#include "tutti/error.hpp"

namespace tutti::ir {

/// Chunks of one rank, in order. Empty: the leaf's chunk holds nothing there.
using Region = std::vector<ChunkSet>;

/// Of chunks of one space, as few sets as keep their order.
Region region_of(Space space, std::span<const std::uint32_t> chunks);

/// Where a leaf lies in the whole.
struct Part {
  std::vector<Rank> members;  ///< the leaf's rank i is this rank of the whole
  /// The place of a chunk of the input, or the output, of a member (the leaf's rank). Chunks of
  /// equal data must have regions of equally many chunks, of equal sizes, on all members.
  std::function<Region(Rank member, std::uint32_t chunk)> input, output;
};

/// Appends `leaf`, which must be well formed (as what generators make is). What is empty on both
/// sides is left out; a message whose ends lie differently becomes several, on further lanes.
/// Scratch of the leaf must name the data it will hold by its chunk in the larger of the leaf's
/// buffers. kUnsupported where two ends of a step do not hold equally many chunks: this leaf relies
/// on blocks of one size.
Status embed(const Schedule& leaf, const Part& part, Builder& whole);

}  // namespace tutti::ir
