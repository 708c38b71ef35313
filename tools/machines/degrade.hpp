// Slows some links of a topology down, to see what one bad switch costs.
#pragma once

#include <string>
#include <string_view>

#include "src/topo/model/topology.hpp"

namespace tutti::topo {

/// Some links, by full names (full_name()) of what they join: all links of `node` in both
/// directions, or only those between `node` and `other` where that is not empty. In both, `*`
/// stands for any characters: "h*/nic3" for rail 3 of every host, "leaf0" and "spine*".
struct LinkSelector {
  std::string node;
  std::string other;
  friend bool operator==(const LinkSelector&, const LinkSelector&) = default;
};

/// Whether `name` is what `pattern` says.
bool matches(std::string_view pattern, std::string_view name);

/// `topology` with the bandwidth of the selected links multiplied by `factor`; 0 takes the links
/// out. kInvalidArgument: a factor that is not from 0 to 1, a name that matches no node, nodes that
/// no link joins.
Result<Topology> degraded(const Topology& topology, const LinkSelector& links, double factor);

}  // namespace tutti::topo
