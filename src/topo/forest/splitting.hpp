// Takes the switches out of a network and leaves what can be sent between compute nodes.
//
// Where a link leads into a switch and another out of it, some of both capacities can be joined to
// a link that bypasses the switch: the links are split off. How much, is limited by the cuts: a cut
// that has the switch on one side and both ends on the other loses capacity, and must keep enough
// for all trees. In a network with balanced switches there is always a way to split off everything
// without harm to any cut that counts (Bang-Jensen, Frank, Jackson, "Preserving and increasing
// local edge-connectivity in mixed graphs", 1995), whatever was split before, so no step is ever
// taken back for good.
//
// Many steps are tried at once. If a cut becomes too tight, its steps are cut down to what it has
// to spare, and the rest is tried again; a cut that has nothing to spare is remembered, and forbids
// steps without a search from then on.
//
// Source: ForestColl (arXiv 2402.06787), section 5.2, which asks for each step by itself.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "src/topo/forest/network.hpp"
#include "tutti/error.hpp"

namespace tutti::topo::forest {

/// What a forest must do: `trees` spanning trees from each of `roots`.
struct Demand {
  std::vector<Vertex> roots;
  std::int64_t trees = 0;
  [[nodiscard]] std::int64_t total() const {
    return trees * static_cast<std::int64_t>(roots.size());
  }
};

/// A way through the network: the first and last vertex compute, those between are switches.
struct Route {
  std::vector<Vertex> path;
  std::int64_t weight = 0;  ///< how much of each link's capacity it has
  friend bool operator==(const Route&, const Route&) = default;
};

/// What compute nodes can send to each other, all of it at once, and on which ways.
using Overlay = std::map<std::pair<Vertex, Vertex>, std::vector<Route>>;

/// Expects a network whose capacities, in units of trees, meet the demand: every compute node can
/// receive demand.total() from a source that feeds each root with demand.trees. The overlay meets
/// it as well. Expects balanced switches: without them kInternal may say that a switch is stuck.
Result<Overlay> remove_switches(const Network& network, const Demand& demand);

}  // namespace tutti::topo::forest
