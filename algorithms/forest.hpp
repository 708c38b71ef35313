// Schedules that follow the spanning trees of a forest: for networks that no regular pattern fits.
#pragma once

#include "src/ir/request.hpp"
#include "src/ir/schedule.hpp"
#include "src/topo/forest/forest.hpp"
#include "tutti/error.hpp"

namespace tutti::algorithms {

/// A schedule that takes Forest::time for long messages, twice that for all_reduce.
///
///   all_gather                   of a forest with all ranks as roots
///   reduce_scatter               of such a forest, grown on the network with all links reversed;
///                                the same one where links have two equal directions
///   all_reduce                   of such a forest where links have two equal directions; on others
///                                it is correct, but its first half not optimal
///   broadcast, reduce            of a forest with the request's root as its only root, reduce on
///                                the reversed network
///
/// kUnsupported for other collectives. kInvalidArgument where the forest has other ranks or roots
/// than the request, or so many trees that the schedule would have too many chunks.
Result<ir::Schedule> forest_schedule(const ir::Request& request,
                                     const topo::forest::Forest& forest);

}  // namespace tutti::algorithms
