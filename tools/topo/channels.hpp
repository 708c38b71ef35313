// NCCL's graph files (src/topo/nccl/graph.hpp) as text and as a picture: the path of each channel.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/topo/nccl/graph.hpp"

namespace tutti::tools {

/// A paragraph for each graph: what NCCL uses it for, its speeds, and a line for each path, with
/// the channels that take it.
std::string channels_text(const std::vector<topo::Graph>& graphs);

/// The same as SVG: a row of GPUs and NICs for each path.
std::string channels_picture(const std::vector<topo::Graph>& graphs, std::string_view name);

}  // namespace tutti::tools
