#include "src/sim/fabric.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "src/base/result.hpp"

namespace tutti::sim {
namespace {

Status check_pair(const Fabric& fabric, Rank from, Rank to) {
  TUTTI_CHECK(from >= 0 && to >= 0 && from < fabric.ranks() && to < fabric.ranks() && from != to,
              "path from rank {} to {} of {}", from, to, fabric.ranks());
  return ok_status();
}

/// The two links between a rank and a switch; half the way from rank to rank each.
void add_port(std::vector<Link>& links, Rank rank, std::string_view up, std::string_view down,
              double bandwidth, double latency) {
  links.push_back({bandwidth, latency / 2, fmt::format("rank {} {}", rank, up)});
  links.push_back({bandwidth, latency / 2, fmt::format("rank {} {}", rank, down)});
}

/// A switch that joins members by a link up and one down each.
struct OneSwitch {
  std::string name;
  const topo::Aggregation& aggregation;
  double latency;           // of both links
  std::uint32_t links;      // of each rank
  std::uint32_t first = 0;  // of these the link up; the next one leads down
};

NetworkTree tree_of(const OneSwitch& of, const ir::Group& group) {
  const double round_trip = of.latency + of.aggregation.latency;
  NetworkTree tree = {.name = of.name,
                      .members = {},
                      .latency = round_trip,
                      .rate = of.aggregation.rate_with(round_trip),
                      .outstanding = of.aggregation.outstanding,
                      .sums_in_parts = of.aggregation.sums_in_parts};
  for (const Rank rank : group.ranks) {
    const LinkId up = of.links * static_cast<LinkId>(rank) + of.first;
    tree.members.push_back({.up = {up}, .down = {up + 1}});
  }
  return tree;
}

/// Takes one of the trees that a switch has left.
Status take_tree(std::string_view name, const topo::Aggregation& aggregation, std::uint32_t& used) {
  if (used++ < aggregation.trees) return ok_status();
  return make_error(Code::kUnsupported,
                    "the {} adds for {} groups at a time; no more were expected", name,
                    aggregation.trees);
}

}  // namespace

Result<std::vector<NetworkTree>> Fabric::trees(std::span<const ir::Group> groups) {
  if (groups.empty()) return std::vector<NetworkTree>{};
  return make_error(Code::kUnsupported,
                    "this network adds nothing and copies nothing for groups of ranks");
}

UniformSwitch::UniformSwitch(const Shape& shape) : shape_(shape) {
  for (Rank rank = 0; rank < ranks(); ++rank)
    add_port(links_, rank, "up", "down", shape.bandwidth, shape.latency);
}

Result<std::vector<LinkId>> UniformSwitch::path(Rank from, Rank to, Lane /*lane*/) {
  TUTTI_TRY(check_pair(*this, from, to));
  return std::vector{2 * static_cast<LinkId>(from), 2 * static_cast<LinkId>(to) + 1};
}

Result<std::vector<NetworkTree>> UniformSwitch::trees(std::span<const ir::Group> groups) {
  if (!shape_.aggregation) return Fabric::trees(groups);
  const OneSwitch of = {"switch", *shape_.aggregation, shape_.latency, 2};
  std::vector<NetworkTree> trees;
  std::uint32_t used = 0;
  for (const ir::Group& group : groups) {
    TUTTI_TRY(take_tree(of.name, of.aggregation, used));
    trees.push_back(tree_of(of, group));
  }
  return trees;
}

TwoLevelSwitch::TwoLevelSwitch(const Shape& shape) : shape_(shape) {
  for (Rank rank = 0; rank < ranks(); ++rank) {
    add_port(links_, rank, "up", "down", shape.inner_bandwidth, shape.inner_latency);
    add_port(links_, rank, "to network", "from network", shape.outer_bandwidth,
             shape.outer_latency);
  }
}

Result<std::vector<LinkId>> TwoLevelSwitch::path(Rank from, Rank to, Lane /*lane*/) {
  TUTTI_TRY(check_pair(*this, from, to));
  const LinkId way = node_of(from) == node_of(to) ? 0 : 2;
  return std::vector{4 * static_cast<LinkId>(from) + way, 4 * static_cast<LinkId>(to) + way + 1};
}

Result<std::vector<NetworkTree>> TwoLevelSwitch::trees(std::span<const ir::Group> groups) {
  std::vector<std::uint32_t> used(static_cast<std::size_t>(shape_.nodes) + 1, 0);
  std::vector<NetworkTree> trees;
  for (const ir::Group& group : groups) {
    const std::int32_t node = node_of(group.ranks.front());
    const bool is_inside =
        std::ranges::all_of(group.ranks, [&](const Rank rank) { return node_of(rank) == node; });
    const bool is_inner = is_inside && shape_.inner_aggregation.has_value();
    if (!is_inner && !shape_.outer_aggregation) return Fabric::trees(groups);
    const OneSwitch of =
        is_inner ? OneSwitch{fmt::format("switch of node {}", node), *shape_.inner_aggregation,
                             shape_.inner_latency, 4}
                 : OneSwitch{"network", *shape_.outer_aggregation, shape_.outer_latency, 4, 2};
    TUTTI_TRY(take_tree(of.name, of.aggregation,
                        is_inner ? used[static_cast<std::size_t>(node)] : used.back()));
    trees.push_back(tree_of(of, group));
  }
  return trees;
}

}  // namespace tutti::sim
