// Writes NCCL's topology files: which node stands in which.
#include <algorithm>
#include <numeric>

#include "src/topo/nccl/writer.hpp"

namespace tutti::topo::nccl {
namespace {

bool holds_others(NodeKind kind) { return kind == NodeKind::kCpu || kind == NodeKind::kPci; }
bool is_leaf(NodeKind kind) { return kind == NodeKind::kGpu || kind == NodeKind::kNic; }

/// Sets of nodes that hang together (Tarjan: Efficiency of a good but not linear set union
/// algorithm, 1975, with path halving).
class Sets {
 public:
  explicit Sets(const Topology& topology)
      : parent_(topology.nodes().size()), has_cpu_(topology.nodes().size()) {
    std::iota(parent_.begin(), parent_.end(), NodeId{0});
    for (NodeId id = 0; id < has_cpu_.size(); ++id)
      has_cpu_[id] = topology.node(id).kind == NodeKind::kCpu;
  }

  /// Whether two sets became one: sets with a CPU each stay apart.
  bool join(NodeId a, NodeId b) {
    a = find(a);
    b = find(b);
    if (a == b || (has_cpu_[a] && has_cpu_[b])) return false;
    parent_[a] = b;
    has_cpu_[b] = has_cpu_[a] || has_cpu_[b];
    return true;
  }

 private:
  NodeId find(NodeId id) {
    while (parent_[id] != id) id = parent_[id] = parent_[parent_[id]];
    return id;
  }

  std::vector<NodeId> parent_;
  std::vector<bool> has_cpu_;
};

/// The PCIe links that make the forest, either direction of each, under the node they leave.
std::vector<std::vector<LinkId>> forest_links(const Topology& topology) {
  std::vector<std::vector<LinkId>> kept(topology.nodes().size());
  Sets sets(topology);
  for (LinkId id = 0; id < topology.links().size(); ++id) {
    const Link& link = topology.link(id);
    const Node& from = topology.node(link.from);
    const Node& to = topology.node(link.to);
    if (link.kind != LinkKind::kPci || from.host != to.host) continue;
    if (!holds_others(from.kind) && !holds_others(to.kind)) continue;
    const bool leaf_has_one = (is_leaf(from.kind) && !kept[link.from].empty()) ||
                              (is_leaf(to.kind) && !kept[link.to].empty());
    if (leaf_has_one || !sets.join(link.from, link.to)) continue;
    kept[link.from].push_back(id);
    kept[link.to].push_back(id);
  }
  return kept;
}

}  // namespace

Tree find_tree(const Topology& topology) {
  const std::size_t nodes = topology.nodes().size();
  const auto joined = forest_links(topology);
  Tree tree = {
      {}, std::vector<std::vector<NodeId>>(nodes), std::vector<std::optional<LinkId>>(nodes), {}};
  std::vector<bool> reached(nodes, false);
  const auto grow = [&](NodeId root) {
    reached[root] = true;
    std::vector<NodeId> open = {root};
    while (!open.empty()) {
      const NodeId outer = open.back();
      open.pop_back();
      for (const LinkId id : joined[outer]) {
        const Link& link = topology.link(id);
        const NodeId inner = link.from == outer ? link.to : link.from;
        if (reached[inner]) continue;
        reached[inner] = true;
        tree.uplinks[inner] = id;
        tree.inside[outer].push_back(inner);
        open.push_back(inner);
      }
      std::ranges::sort(tree.inside[outer]);
    }
  };
  for (NodeId id = 0; id < nodes; ++id)
    if (topology.node(id).kind == NodeKind::kCpu) {
      tree.roots.push_back(id);
      grow(id);
    }
  for (const bool leaves : {false, true})
    for (NodeId id = 0; id < nodes; ++id) {
      const NodeKind kind = topology.node(id).kind;
      if (reached[id] || (leaves ? !is_leaf(kind) : kind != NodeKind::kPci)) continue;
      tree.loose.push_back(id);
      grow(id);
    }
  return tree;
}

}  // namespace tutti::topo::nccl
