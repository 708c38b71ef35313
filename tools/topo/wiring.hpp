// Chooses the links that a picture of a topology shows, and their routes.
#pragma once

#include "tools/topo/arrangement.hpp"
#include "tools/topo/ink.hpp"
#include "tools/topo/layout.hpp"

namespace tutti::tools {

/// All links but those of the network.
void draw_wires_inside(Ink& ink, const Arrangement& arrangement, const Layout& layout);

/// Links of the network, which pass over the boxes of is_bar(); to the outside of a NIC as an open
/// end.
void draw_network(Ink& ink, const Arrangement& arrangement, const Layout& layout);

}  // namespace tutti::tools
