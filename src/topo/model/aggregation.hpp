// Switches that add and copy for groups of ranks (src/ir/schedule.hpp), so that a rank sends its
// data once and receives the sum once.
//
// A node tells that it does so by its attribute `aggregation`, in which what is left out has its
// default:
//
//   "aggregation": "trees=2,outstanding=1,latency=0.3,rate=382.5,window=131072,parts=1"
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/topo/model/topology.hpp"
#include "tutti/error.hpp"

namespace tutti::topo {

/// What a switch does for groups. Value.
struct Aggregation {
  /// Groups that it serves at a time. Each has a tree of switches; one tree of each group leads
  /// through a switch at most.
  std::uint32_t trees = 1;
  /// Operations of a tree at a time; 0: any number. Streaming aggregation has one.
  std::uint32_t outstanding = 1;
  double latency = 0;  ///< microseconds to add, beyond those of the links
  double rate = 0;     ///< GB/s of a tree's sums on a member's link at most; 0: what the link has
  /// Bytes that the switch keeps for a tree until all members have sent them and the sums have come
  /// back: slots times bytes of a packet. So a tree has at most this in a round trip. 0: no limit.
  double window = 0;
  /// The switch sends a sum to one member only, as NVSwitches do. A sum for all members then goes
  /// to each in parts, and from there to all: links carry 1 + 1/members of its bytes, in two steps.
  bool sums_in_parts = false;

  /// GB/s of a tree whose data is back after `round_trip` microseconds; 0: what the links have.
  [[nodiscard]] double rate_with(double round_trip) const;

  friend bool operator==(const Aggregation&, const Aggregation&) = default;
};

/// Of the attribute's value. kInvalidArgument names what is wrong in it: a key that is unknown or
/// there twice, a number beyond its range.
Result<Aggregation> parse_aggregation(std::string_view text);

/// The numbers that differ from the default, by the names that they have in the text.
struct AggregationValue {
  std::string_view name;
  double value = 0;
};
std::vector<AggregationValue> values_of(const Aggregation& aggregation);

/// What parse_aggregation() reads: the number of trees, and what differs from the default.
std::string text_of(const Aggregation& aggregation);

/// Nothing if the node has no such attribute. kInvalidArgument names the node.
Result<std::optional<Aggregation>> aggregation_of(const Topology& topology, NodeId node);

inline constexpr std::string_view kAggregationKey = "aggregation";

}  // namespace tutti::topo
