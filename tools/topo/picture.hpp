// Draws a topology.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/topo/arrangement.hpp"
#include "tools/topo/measured.hpp"

namespace tutti::tools {

/// SVG: hosts as boxes with their CPUs and what hangs from them, network switches above, NVLink
/// below the GPUs; a ring, torus or mesh as a grid. Lines are as thick as links are fast, coloured
/// by kind; the legend says both. Of many hosts that are alike only the first is drawn in full, and
/// the picture says so. Equal topologies give equal texts.
std::string picture(const Arrangement& arrangement, std::string_view title,
                    const std::vector<Measured>& measured);

}  // namespace tutti::tools
