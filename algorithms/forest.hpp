// Schedules that follow the spanning trees of a forest: for networks that no regular pattern fits.
#pragma once

#include <cstdint>
#include <vector>

#include "src/ir/request.hpp"
#include "src/ir/schedule.hpp"
#include "src/topo/forest/forest.hpp"
#include "tutti/error.hpp"

namespace tutti::algorithms {

/// The way that a lane between two ranks was planned to take. Value.
struct LaneRoute {
  Rank from = 0;
  Rank to = 0;
  Lane lane = 0;
  topo::forest::Route route;  ///< of the forest's network; weighs what all trees send over it
};

/// A schedule without places, and the ways of its lanes on the network that it was planned for:
/// whoever can choose the way of a message (a simulator, a fabric with source routing) needs both.
struct RoutedSchedule {
  ir::Schedule schedule;
  std::vector<LaneRoute> routes;  ///< of every lane in use, ascending by from, to and lane
};

/// A schedule that takes Forest::time for long messages, twice that for all_reduce.
///
///   all_gather                   of a forest with all ranks as roots
///   reduce_scatter               of such a forest, grown on the network with all links reversed;
///                                the same one where links have two equal directions
///   all_reduce                   of such a forest where links have two equal directions
///   broadcast, reduce            of a forest with the request's root as its only root, reduce on
///                                the reversed network
///
/// `lanes`: an all_gather or broadcast cuts the share of each tree in so many chunks, each with a
/// lane of its own but for hops from a root to a leaf, which take all in one. Where links share
/// fairly, data on longer ways then has so many times the rate of those hops: it comes early, and
/// what can wait fills the end. Costs as many times the messages; helps where latency counts, and
/// delays all where the rates of the trees leave nothing to shift. 1 or more.
///
/// Routes have the direction of their messages: those of sums are the forest's reversed.
///
/// kUnsupported for other collectives. kInvalidArgument where the forest has other ranks or roots
/// than the request, or so many trees that the schedule would have too many chunks.
Result<RoutedSchedule> forest_schedule(const ir::Request& request,
                                       const topo::forest::Forest& forest, std::uint32_t lanes = 1);

/// The same of an all_reduce on any network: sums go up `sums`, grown on the network with all links
/// reversed, and from the roots down `results`.
Result<RoutedSchedule> forest_all_reduce(const ir::Request& request,
                                         const topo::forest::Forest& sums,
                                         const topo::forest::Forest& results);

}  // namespace tutti::algorithms
