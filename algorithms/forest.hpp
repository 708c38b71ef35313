// Schedules along the spanning trees of a forest, for networks that no regular pattern fits.
#pragma once

#include <cstdint>
#include <vector>

#include "src/ir/request.hpp"
#include "src/ir/schedule.hpp"
#include "src/topo/forest/forest.hpp"
#include "tutti/error.hpp"

namespace tutti::algorithms {

/// The planned path of one lane between two ranks. Value.
struct LaneRoute {
  Rank from = 0;
  Rank to = 0;
  Lane lane = 0;
  topo::forest::Route
      route;  ///< in the forest's network; its weight is what all trees send over it
};

/// A schedule without layout, and the paths of its lanes in the network for which it was planned.
/// Whatever can choose the path of a message (a simulator, a fabric with source routing) needs
/// both.
struct RoutedSchedule {
  ir::Schedule schedule;
  std::vector<LaneRoute> routes;  ///< of every lane in use, ascending by from, to and lane
};

/// A schedule that takes Forest::time for long messages; an all_reduce takes twice that.
///
///   all_gather                   needs a forest with all ranks as roots
///   reduce_scatter               needs such a forest, grown on the network with all links
///                                reversed; the same forest if links are equal in both directions
///   all_reduce                   needs such a forest, and links that are equal in both directions
///   broadcast, reduce            need a forest whose only root is the request's root; for reduce,
///                                grown on the reversed network
///
/// `lanes` >= 1: an all_gather or broadcast cuts the share of each tree into this many chunks, each
/// with its own lane. Hops from a root to a leaf take all chunks on one lane. If links share
/// fairly, data on longer paths then gets `lanes` times the rate of those hops. So it arrives
/// early, and data that can wait fills the end. This costs `lanes` times the messages. It helps
/// where latency matters. It delays everything if the rates of the trees leave no room for
/// shifting.
///
/// Routes have the direction of their messages. Routes of sums are the forest's, reversed.
///
/// kUnsupported for other collectives. kInvalidArgument if the forest has other ranks or roots than
/// the request, or so many trees that the schedule would have too many chunks.
Result<RoutedSchedule> forest_schedule(const ir::Request& request,
                                       const topo::forest::Forest& forest, std::uint32_t lanes = 1);

/// Grows the trees that `request` needs on `network`, whatever its links, and makes the schedule:
/// at most 32 trees from each root, since a schedule has chunks for all of them, and so many cost
/// next to no time on machines whose optimum takes more. `hides_latency`: hops straight from roots
/// come first (GrowOptions::direct_hops_first), and data on longer ways has two lanes. Errors are
/// those of grow() and forest_schedule().
Result<RoutedSchedule> planned_forest(const ir::Request& request,
                                      const topo::forest::Network& network,
                                      bool hides_latency = false);

/// The same as forest_schedule() for an all_reduce on any network. Sums travel up `sums`, which is
/// grown on the network with all links reversed. Results travel from the roots down `results`.
Result<RoutedSchedule> forest_all_reduce(const ir::Request& request,
                                         const topo::forest::Forest& sums,
                                         const topo::forest::Forest& results);

}  // namespace tutti::algorithms
