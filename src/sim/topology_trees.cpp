#include "src/sim/topology_trees.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "src/base/result.hpp"

namespace tutti::sim {
namespace {

using topo::NodeId;
using Aggregations = std::vector<std::optional<topo::Aggregation>>;  // by node

constexpr NodeId kNoNode = ~NodeId{0};

/// Where a member's way leaves its host: at the first switch that adds.
struct Attachment {
  NodeId at = 0;
  std::vector<NodeId> way;  ///< from the member to that switch, both included
};

bool forwards_in_host(const topo::Node& node, topo::HostId host) {
  return node.host == host &&
         (node.kind == topo::NodeKind::kPci || node.kind == topo::NodeKind::kCpu ||
          node.kind == topo::NodeKind::kNic);
}

/// All switches that add and to which the host of `place` leads, each by its shortest way.
std::vector<Attachment> attachments_of(const topo::Topology& topology,
                                       const Aggregations& aggregations, NodeId place) {
  std::vector<Attachment> found;
  std::map<NodeId, NodeId> before = {{place, kNoNode}};  // on the way
  std::vector<NodeId> open = {place};
  for (std::size_t next = 0; next < open.size(); ++next)
    for (const topo::LinkId link : topology.links_from(open[next])) {
      const NodeId to = topology.link(link).to;
      const bool adds = aggregations[to].has_value();
      if (!adds && !forwards_in_host(topology.node(to), topology.node(place).host)) continue;
      if (!before.try_emplace(to, open[next]).second) continue;
      if (!adds) {
        open.push_back(to);
        continue;
      }
      Attachment& attachment = found.emplace_back(Attachment{to, {}});
      for (NodeId at = to; at != kNoNode; at = before[at]) attachment.way.push_back(at);
      std::ranges::reverse(attachment.way);
    }
  return found;
}

/// From a switch over others that add.
struct Reach {
  static constexpr std::uint32_t kNot = std::numeric_limits<std::uint32_t>::max();
  std::map<NodeId, std::uint32_t> links;  ///< number of them to each switch that is reached
  std::map<NodeId, NodeId> before;        ///< the switch before it on the way
  [[nodiscard]] std::uint32_t to(NodeId node) const {
    const auto found = links.find(node);
    return found == links.end() ? kNot : found->second;
  }
};

/// Trees for groups, one after another; knows what the groups before have taken.
class TreeSearch {
 public:
  TreeSearch(const topo::Topology& topology, const Aggregations& aggregations,
             std::span<const NodeId> places)
      : topology_(topology), aggregations_(aggregations), places_(places) {
    for (NodeId node = 0; node < aggregations.size(); ++node)
      if (aggregations[node]) groups_through_[node] = 0;
  }

  Result<NetworkTree> find(const ir::Group& group) {
    members_.clear();
    for (const Rank rank : group.ranks)
      members_.push_back(
          attachments_of(topology_, aggregations_, places_[static_cast<std::size_t>(rank)]));
    const NodeId root = best_root();
    if (root != kNoNode) return grow(group, root);
    return make_error(Code::kUnsupported,
                      "no tree of switches that add is left for {} ranks, from {} to {}; switches "
                      "with `{}` between them were expected",
                      group.ranks.size(), group.ranks.front(), group.ranks.back(),
                      topo::kAggregationKey);
  }

 private:
  [[nodiscard]] bool is_free(NodeId node) const {
    return aggregations_[node] && groups_through_.at(node) < aggregations_[node]->trees;
  }

  [[nodiscard]] Reach reach_of(NodeId from) const {
    Reach reach;
    if (!is_free(from)) return reach;
    reach.links[from] = 0;
    std::vector<NodeId> open = {from};
    for (std::size_t next = 0; next < open.size(); ++next)
      for (const topo::LinkId link : topology_.links_from(open[next])) {
        const NodeId to = topology_.link(link).to;
        if (!is_free(to)) continue;
        if (!reach.links.try_emplace(to, reach.links[open[next]] + 1).second) continue;
        reach.before[to] = open[next];
        open.push_back(to);
      }
    return reach;
  }

  /// For a member with these attachments: the one nearest to it, and of these the one nearest to
  /// the other end. Null if none is reached.
  template <class LinksTo>
  static const Attachment* nearest(const std::vector<Attachment>& attachments, LinksTo links_to) {
    const Attachment* best = nullptr;
    std::pair<std::size_t, std::uint32_t> least;
    for (const Attachment& attachment : attachments) {
      const std::uint32_t links = links_to(attachment.at);
      const std::pair length(attachment.way.size(), links);
      if (links == Reach::kNot || (best != nullptr && length >= least)) continue;
      best = &attachment;
      least = length;
    }
    return best;
  }

  /// Members whose attachments are the same switches, equally far away, once.
  [[nodiscard]] std::vector<const std::vector<Attachment>*> different_members() const {
    std::map<std::vector<std::pair<NodeId, std::size_t>>, const std::vector<Attachment>*> different;
    for (const auto& member : members_) {
      std::vector<std::pair<NodeId, std::size_t>> key;
      for (const Attachment& attachment : member)
        key.emplace_back(attachment.at, attachment.way.size());
      different.try_emplace(std::move(key), &member);
    }
    std::vector<const std::vector<Attachment>*> members;
    for (const auto& [key, member] : different) members.push_back(member);
    return members;
  }

  [[nodiscard]] NodeId best_root() const {
    const auto members = different_members();
    std::map<NodeId, Reach> from;
    for (const auto* member : members)
      for (const Attachment& attachment : *member)
        if (!from.contains(attachment.at)) from[attachment.at] = reach_of(attachment.at);
    std::tuple<std::size_t, std::uint32_t, NodeId> best;
    NodeId root = kNoNode;
    for (const auto& [node, groups] : groups_through_) {
      std::size_t farthest = 0;
      for (const auto* member : members) {
        const Attachment* attachment =
            nearest(*member, [&, node = node](NodeId at) { return from[at].to(node); });
        farthest = attachment == nullptr
                       ? Reach::kNot
                       : std::max(farthest, attachment->way.size() + from[attachment->at].to(node));
        if (attachment == nullptr) break;
      }
      const std::tuple score(farthest, groups, node);
      if (farthest == Reach::kNot || (root != kNoNode && score >= best)) continue;
      best = score;
      root = node;
    }
    return root;
  }

  Result<NetworkTree> grow(const ir::Group& group, NodeId root) {
    NetworkTree tree;
    tree.name = full_name(topology_, root);
    const Reach reach = reach_of(root);
    std::map<NodeId, topo::Aggregation> passed;
    std::map<LinkId, Rank> in_hosts;  // links before the first switch, and whose they are
    double latency_up = 0, latency_down = 0;
    for (std::size_t place = 0; place < members_.size(); ++place) {
      const Attachment* found = nearest(members_[place], [&](NodeId at) { return reach.to(at); });
      if (found == nullptr)
        return make_error(Code::kUnsupported, "nothing leads from {} back to rank {}", tree.name,
                          group.ranks[place]);
      const Attachment& attachment = *found;
      std::vector<NodeId> way = attachment.way;
      while (way.back() != root) way.push_back(reach.before.at(way.back()));
      NetworkTree::Member& member = tree.members.emplace_back();
      TUTTI_TRY(lay(way, member));
      const std::size_t links_in_host = attachment.way.size() - 1;
      TUTTI_TRY(keep_apart(group.ranks[place], links_in_host, member, in_hosts));
      double up = latency_of(member.up);
      for (std::size_t i = links_in_host; i < way.size(); ++i) {
        passed[way[i]] = *aggregations_[way[i]];
        up += aggregations_[way[i]]->latency;
      }
      latency_up = std::max(latency_up, up);
      latency_down = std::max(latency_down, latency_of(member.down));
    }
    tree.latency = latency_up + latency_down;
    take(passed, tree);
    return tree;
  }

  [[nodiscard]] double latency_of(const std::vector<LinkId>& links) const {
    double latency = 0;
    for (const LinkId link : links) latency += topology_.link(link).latency;
    return latency;
  }

  /// The links of a member's way, in both directions.
  Status lay(const std::vector<NodeId>& way, NetworkTree::Member& member) {
    for (std::size_t i = 0; i + 1 < way.size(); ++i) {
      const LinkId up = cable(way[i], way[i + 1]), down = cable(way[i + 1], way[i]);
      if (up == kNoLink || down == kNoLink)
        return make_error(Code::kUnsupported, "nothing leads from {} back to {}",
                          full_name(topology_, way[i + 1]), full_name(topology_, way[i]));
      member.up.push_back(up);
      member.down.insert(member.down.begin(), down);
    }
    return ok_status();
  }

  /// Of parallel cables, the widest and of these the one that the fewest groups take.
  LinkId cable(NodeId from, NodeId to) const {
    LinkId best = kNoLink;
    const auto rank_of = [&](LinkId link) {
      const auto found = groups_on_.find(link);
      return std::pair(-topology_.link(link).bandwidth,
                       found == groups_on_.end() ? 0U : found->second);
    };
    for (const topo::LinkId link : topology_.links_from(from))
      if (topology_.link(link).to == to && (best == kNoLink || rank_of(link) < rank_of(best)))
        best = link;
    return best;
  }

  Status keep_apart(Rank rank, std::size_t links, const NetworkTree::Member& member,
                    std::map<LinkId, Rank>& in_hosts) const {
    for (std::size_t i = 0; i < links; ++i) {
      const auto [other, is_new] = in_hosts.try_emplace(member.up[i], rank);
      if (is_new) continue;
      const topo::Link& link = topology_.link(member.up[i]);
      return make_error(Code::kUnsupported,
                        "ranks {} and {} share the link {} -> {}, behind which nothing adds yet; "
                        "one rank of a group at each NIC was expected",
                        other->second, rank, full_name(topology_, link.from),
                        full_name(topology_, link.to));
    }
    return ok_status();
  }

  /// What the switches allow, and that they serve one more group.
  void take(const std::map<NodeId, topo::Aggregation>& passed, NetworkTree& tree) {
    tree.outstanding = 0;
    for (const auto& [node, aggregation] : passed) {
      ++groups_through_[node];
      const double rate = aggregation.rate_with(tree.latency);
      if (rate > 0) tree.rate = tree.rate > 0 ? std::min(tree.rate, rate) : rate;
      if (aggregation.outstanding > 0)
        tree.outstanding = tree.outstanding > 0
                               ? std::min(tree.outstanding, aggregation.outstanding)
                               : aggregation.outstanding;
      tree.sums_in_parts = tree.sums_in_parts || aggregation.sums_in_parts;
    }
    std::set<LinkId> links;
    for (const NetworkTree::Member& member : tree.members) {
      links.insert(member.up.begin(), member.up.end());
      links.insert(member.down.begin(), member.down.end());
    }
    for (const LinkId link : links) ++groups_on_[link];
  }

  static constexpr LinkId kNoLink = ~LinkId{0};

  const topo::Topology& topology_;
  const Aggregations& aggregations_;
  std::span<const NodeId> places_;
  std::map<NodeId, std::uint32_t> groups_through_;  // of switches that add
  std::map<LinkId, std::uint32_t> groups_on_;
  std::vector<std::vector<Attachment>> members_;  // of the current group
};

}  // namespace

Result<TopologyTrees> TopologyTrees::create(const topo::Topology& topology) {
  TopologyTrees trees(topology);
  for (NodeId node = 0; node < topology.nodes().size(); ++node) {
    TUTTI_ASSIGN(auto aggregation, topo::aggregation_of(topology, node));
    trees.aggregations_.push_back(aggregation);
  }
  return trees;
}

Result<std::vector<NetworkTree>> TopologyTrees::find(std::span<const ir::Group> groups,
                                                     std::span<const NodeId> places) const {
  std::vector<NetworkTree> trees;
  if (groups.empty()) return trees;
  TreeSearch search(*topology_, aggregations_, places);
  for (const ir::Group& group : groups) {
    TUTTI_ASSIGN(NetworkTree tree, search.find(group));
    trees.push_back(std::move(tree));
  }
  return trees;
}

}  // namespace tutti::sim
