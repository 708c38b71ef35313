// Writes the schedules of two levels: one-level algorithms, as leaves, inside nodes and between
// ranks of several nodes. What a collective does on each level is its algorithm's.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "algorithms/nodes.hpp"
#include "src/ir/algorithm.hpp"
#include "src/ir/builder.hpp"
#include "src/ir/embed.hpp"
#include "src/ir/schedule.hpp"
#include "tutti/error.hpp"

namespace tutti::algorithms {

class TwoLevels {
 public:
  /// `request` has two levels; `name` outlives the schedule.
  TwoLevels(const ir::Request& request, std::string_view name, std::uint32_t chunks_per_block)
      : nodes_(request.layout), whole_(request, name, chunks_per_block) {}

  [[nodiscard]] const Nodes& nodes() const { return nodes_; }

  /// Appends what `leaf` does among the ranks of a node, which are the members. `request` is for as
  /// many ranks as the node has, whatever it says. Blocks must be one chunk each.
  Status inside(Rank node, const ir::Algorithm& leaf, ir::Request request,
                std::function<ir::Region(Rank member, std::uint32_t chunk)> input,
                std::function<ir::Region(Rank member, std::uint32_t chunk)> output);
  /// Appends a leaf among ranks of several nodes.
  Status between(const ir::Schedule& leaf, const ir::Part& part) {
    return ir::embed(leaf, part, whole_);
  }

  /// Scratch of a rank for data like this.
  ir::Region scratch(Rank rank, const ir::Region& like);
  /// The blocks of all ranks of a node, by local number.
  [[nodiscard]] ir::Region blocks_of(Rank node, ir::Space space) const;

  ir::Schedule finish() && { return std::move(whole_).finish(); }

 private:
  Nodes nodes_;
  ir::Builder whole_;
};

/// Adds `more` at the end.
void append(ir::Region& region, const ir::Region& more);
/// Chunk number `number` of a region; nothing beyond its end.
ir::Region nth(const ir::Region& region, std::uint32_t number);

}  // namespace tutti::algorithms
