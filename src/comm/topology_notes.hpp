// Tells users of a communicator's topology: in the log, and in the file that they ask for.
#pragma once

#include <string_view>

#include "src/base/settings.hpp"
#include "src/topo/job/fuse.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// One line under INIT and GRAPH: hosts, nodes, wiring and what was assumed. `who` stands in front.
void say_topology(const topo::JobTopology& job, std::string_view who);

/// Writes `topology` to the file that TUTTI_TOPO_DUMP_FILE names, if `rank` is the one that
/// TUTTI_TOPO_DUMP_FILE_RANK names: as Tutti's JSON if the name ends in ".json", else as NCCL's
/// XML. The file appears whole or not at all. A failure is a warning.
void dump_topology(const topo::Topology& topology, const Settings& settings, Rank rank,
                   std::string_view who);

}  // namespace tutti
