// The question that optimum, splitting and packing share: does every vertex get all data?
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "src/topo/forest/max_flow.hpp"
#include "src/topo/forest/vertex_set.hpp"

namespace tutti::topo::forest {

/// A cut through which less can flow than is needed behind it.
struct Shortage {
  VertexSet outside;         ///< vertices beyond the cut; the source is not among them
  std::int64_t missing = 0;  ///< how much less, greater than 0
};

/// The cut that keeps `source` from sending `needed` to one of `sinks`, each by itself; nullopt if
/// none does. `graph` is used up.
std::optional<Shortage> find_shortage(FlowGraph graph, Vertex source, std::span<const Vertex> sinks,
                                      std::int64_t needed);

}  // namespace tutti::topo::forest
