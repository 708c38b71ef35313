// Fat trees, and what differs from them in which port goes to which leaf.
//
// A switch of R ports whose oversubscription is o has D = floor(R o / (1 + o)) ports down and R - D
// up. Each of its cables up goes to the next of S switches above, S a divisor of R - D, so that all
// have equally many cables from every switch below: then what leaves a switch can be spread evenly
// over all that lies above, and a tree with o = 1 is as wide in its middle as its ports together.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/result.hpp"
#include "tools/fabric/wiring.hpp"

namespace tutti::topo {
namespace {

/// The smallest divisor of `ups` that is at least `least`, which is at most `ups`.
std::uint32_t divisor_from(std::uint32_t least, std::uint32_t ups) {
  while (ups % least != 0) ++least;
  return least;
}

std::uint32_t ports_down(std::uint32_t radix, double oversubscription) {
  const double down = radix * oversubscription / (1 + oversubscription);
  return std::clamp(static_cast<std::uint32_t>(down + 1e-9), 1U, radix - 1);
}

std::uint64_t divided_up(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

/// Ports that go to one leaf.
using Leaf = std::vector<FabricPort>;

/// One tree; there may be several side by side.
class Tree {
 public:
  Tree(Wiring& wiring, const FabricShape& shape, std::string prefix, double share)
      : wiring_(wiring), shape_(shape), prefix_(std::move(prefix)), share_(share) {}

  Status join(const std::vector<Leaf>& leaves) {
    TUTTI_TRY(check_size(leaves.size()));
    const std::uint32_t ups = shape_.radix - ports_down(shape_.radix, shape_.oversubscription);
    TUTTI_TRY(wiring_.check_cables(std::uint64_t{ups} * leaves.size() * 2));
    std::vector<NodeId> switches;
    for (const Leaf& leaf : leaves) {
      switches.push_back(add("leaf", switches.size()));
      for (const FabricPort& port : leaf) wiring_.plug(port, switches.back(), share_);
    }
    if (leaves.size() > shape_.radix) return join_by_pods(switches, ups);
    if (leaves.size() > 1) raise(switches, ups, spines_, needed(leaves.size(), ups, shape_.radix));
    return ok_status();
  }

 private:
  /// Switches of one layer, for their names.
  struct Layer {
    std::string_view name;
    std::size_t count = 0;
  };

  NodeId add(std::string_view name, std::size_t number) {
    return wiring_.add_switch(fmt::format("{}{}{}", prefix_, name, number));
  }

  [[nodiscard]] Status check_size(std::size_t leaves) const {
    const std::uint64_t largest =
        ports_down(shape_.radix, shape_.core_oversubscription) * std::uint64_t{shape_.radix};
    const std::array<std::uint64_t, 3> most = {1, shape_.radix, largest};  // of each depth
    const std::uint32_t tiers = shape_.tiers == 0 ? 3 : shape_.tiers;
    if (leaves <= most[tiers - 1]) return ok_status();
    return make_error(Code::kInvalidArgument,
                      "the hosts need {} leaves, but {} of switches with {} ports has at most {}: "
                      "raise radix{}",
                      leaves, tiers == 1 ? "one tier" : fmt::format("a tree of {} tiers", tiers),
                      shape_.radix, most[tiers - 1], tiers < 3 ? " or tiers" : "");
  }

  /// How many switches with `ports` ports down lie above `below` ones with `ups` cables up each.
  static std::uint32_t needed(std::size_t below, std::uint32_t ups, std::uint32_t ports) {
    return divisor_from(static_cast<std::uint32_t>(divided_up(below * ups, ports)), ups);
  }

  std::vector<NodeId> raise(const std::vector<NodeId>& below, std::uint32_t ups, Layer& layer,
                            std::uint32_t count) {
    std::vector<NodeId> above(count);
    for (NodeId& node : above) node = add(layer.name, layer.count++);
    for (const NodeId node : below)
      for (std::uint32_t up = 0; up < ups; ++up) wiring_.cable(node, above[up % count], share_);
    return above;
  }

  /// Three tiers: the leaves of a pod have spines of their own, spine i of each pod the same cores.
  Status join_by_pods(const std::vector<NodeId>& leaves, std::uint32_t leaf_ups) {
    const std::uint32_t down = ports_down(shape_.radix, shape_.core_oversubscription);
    const std::uint32_t spine_ups = shape_.radix - down;
    const std::size_t pods = divided_up(leaves.size(), down);
    const std::size_t leaves_of_pod = divided_up(leaves.size(), pods);
    const std::uint32_t spines_of_pod = needed(leaves_of_pod, leaf_ups, down);
    TUTTI_TRY(wiring_.check_cables(std::uint64_t{spine_ups} * pods * spines_of_pod));
    std::vector<std::vector<NodeId>> columns(spines_of_pod);  // spine i of each pod
    for (std::size_t first = 0; first < leaves.size(); first += leaves_of_pod) {
      const std::size_t last = std::min(first + leaves_of_pod, leaves.size());
      const std::vector<NodeId> pod(leaves.begin() + static_cast<std::ptrdiff_t>(first),
                                    leaves.begin() + static_cast<std::ptrdiff_t>(last));
      const auto spines = raise(pod, leaf_ups, spines_, spines_of_pod);
      for (std::size_t i = 0; i < spines.size(); ++i) columns[i].push_back(spines[i]);
    }
    const std::uint32_t cores = needed(pods, spine_ups, shape_.radix);
    for (const auto& column : columns) raise(column, spine_ups, cores_, cores);
    return ok_status();
  }

  Wiring& wiring_;
  const FabricShape& shape_;
  std::string prefix_;
  double share_;
  Layer spines_{"spine"};
  Layer cores_{"core"};
};

/// `ports` in order, so many to a leaf.
std::vector<Leaf> in_order(const std::vector<FabricPort>& ports, std::uint32_t of_leaf) {
  std::vector<Leaf> leaves;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (i % of_leaf == 0) leaves.emplace_back();
    leaves.back().push_back(ports[i]);
  }
  return leaves;
}

std::vector<FabricPort> ports_of_rail(const Wiring& wiring, std::uint32_t rail) {
  std::vector<FabricPort> ports;
  for (std::uint32_t host = 0; host < wiring.hosts(); ++host)
    ports.push_back(wiring.port(host, rail));
  return ports;
}

/// So many hosts side by side share leaves, one for each rail.
std::vector<Leaf> by_rails(const Wiring& wiring, std::uint32_t hosts_of_leaf) {
  std::vector<Leaf> leaves;
  for (std::uint32_t host = 0; host < wiring.hosts(); ++host) {
    if (host % hosts_of_leaf == 0) leaves.resize(leaves.size() + wiring.rails());
    for (std::uint32_t rail = 0; rail < wiring.rails(); ++rail)
      leaves[leaves.size() - wiring.rails() + rail].push_back(wiring.port(host, rail));
  }
  return leaves;
}

}  // namespace

Status wire_tree(Wiring& wiring, const FabricShape& shape) {
  const std::uint32_t down = ports_down(shape.radix, shape.oversubscription);
  switch (shape.kind) {
    case FabricKind::kFatTree:
      return Tree(wiring, shape, "", 1).join(in_order(wiring.ports(), down));
    case FabricKind::kRailOnly:
      for (std::uint32_t rail = 0; rail < wiring.rails(); ++rail)
        TUTTI_TRY(Tree(wiring, shape, fmt::format("rail{}.", rail), 1)
                      .join(in_order(ports_of_rail(wiring, rail), down)));
      return ok_status();
    case FabricKind::kDualPlane:
      for (std::uint32_t plane = 0; plane < shape.planes; ++plane)
        TUTTI_TRY(Tree(wiring, shape, fmt::format("plane{}.", plane), 1.0 / shape.planes)
                      .join(by_rails(wiring, down)));
      return ok_status();
    default:
      return Tree(wiring, shape, "", 1).join(by_rails(wiring, down));
  }
}

}  // namespace tutti::topo
