// Places network switches, and NVSwitches between hosts, in a picture.
#pragma once

#include <vector>

#include "tools/topo/layout.hpp"

namespace tutti::tools {

/// Rows of switches above the hosts, the lowest first: those that NICs plug into, then those that
/// join them.
using FabricRows = std::vector<std::vector<topo::NodeId>>;

std::vector<topo::NodeId> nics_of(const Arrangement& arrangement, topo::HostId host);

/// The switches that the NICs of these hosts reach on the way up: not those on the way down to
/// other hosts.
FabricRows fabric_of(const Arrangement& arrangement, const std::vector<topo::HostId>& hosts);

/// From the top of the highest row to the hosts, in a picture of that width; 0 for no rows.
double fabric_height(const FabricRows& fabric, double width);

/// Places all rows from `top` down to the hosts of the layout, over its width, as far as there is
/// room, and says how thick its lines may be.
void place_fabric(const Arrangement& arrangement, const FabricRows& fabric, double top,
                  Layout& layout);

/// Places NVSwitches that belong to no host below all hosts, and makes room for them.
void place_shared_planes(const Arrangement& arrangement, Layout& layout);

}  // namespace tutti::tools
