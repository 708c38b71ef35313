#include "tools/explain/nics.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/topo/model/affinity.hpp"
#include "src/topo/model/paths.hpp"
#include "tools/program/cli.hpp"

namespace tutti::tools {
namespace {

std::vector<topo::NodeId> nodes_of(const topo::Topology& topology, topo::HostId host,
                                   topo::NodeKind kind) {
  std::vector<topo::NodeId> found;
  for (const topo::NodeId id : topology.nodes_of(host))
    if (topology.node(id).kind == kind) found.push_back(id);
  return found;
}

NearNics row_of(topo::PathFinder& finder, topo::NodeId id) {
  const topo::Topology& topology = finder.topology();
  const topo::Node& node = topology.node(id);
  const auto nics =
      node.kind == topo::NodeKind::kGpu
          ? shortest_to(finder, id, nodes_of(topology, node.host, topo::NodeKind::kNic))
          : nearest_nics(finder, id);
  NearNics row{.host = topology.hosts()[node.host].name, .node = node.name};
  for (const topo::NodeId nic : nics) {
    const topo::Path path = finder.find(id, nic);
    row.path = name_of(path.kind);
    row.place = describe_place(path.kind, node);
    row.bandwidth = row.nics.empty() ? path.bandwidth : std::min(row.bandwidth, path.bandwidth);
    row.nics.push_back(topology.node(nic).name);
  }
  return row;
}

bool same_but_for_host(const NearNics& a, const NearNics& b) {
  return a.node == b.node && a.nics == b.nics && a.path == b.path && a.bandwidth == b.bandwidth;
}

/// Of how many hosts `rows` tell the same; 0: of several, which differ.
std::size_t equal_hosts(const std::vector<NearNics>& rows) {
  const auto is_first = [&](const NearNics& row) { return row.host == rows.front().host; };
  const auto of_first = static_cast<std::size_t>(std::ranges::count_if(rows, is_first));
  if (rows.size() % of_first != 0) return 0;
  for (std::size_t i = of_first; i < rows.size(); ++i) {
    const bool begins_host = i % of_first == 0;
    if ((rows[i].host == rows[i - 1].host) == begins_host) return 0;
    if (!same_but_for_host(rows[i], rows[i % of_first])) return 0;
  }
  return rows.size() / of_first;
}

std::string scope_of(const std::string& first_host, std::size_t equal_hosts) {
  if (equal_hosts < 2) return "";
  return fmt::format(
      " of {}, and the same on {}", first_host,
      equal_hosts == 2 ? "one host more" : fmt::format("{} hosts more", equal_hosts - 1));
}

}  // namespace

std::vector<NearNics> near_nics(const topo::Topology& topology, const topo::Placement& placement) {
  topo::PathFinder finder(topology);
  std::vector<NearNics> rows;
  std::vector<topo::NodeId> seen;
  for (std::size_t rank = 0; rank < placement.ranks.size(); ++rank) {
    const auto known = std::ranges::find(seen, placement.ranks[rank]);
    const auto at = static_cast<std::size_t>(known - seen.begin());
    if (known == seen.end()) {
      seen.push_back(placement.ranks[rank]);
      rows.push_back(row_of(finder, placement.ranks[rank]));
    }
    rows[at].ranks.push_back(static_cast<Rank>(rank));
  }
  return rows;
}

std::vector<NearNics> near_nics_of_host(const topo::Topology& topology) {
  topo::PathFinder finder(topology);
  auto nodes = nodes_of(topology, 0, topo::NodeKind::kGpu);
  if (nodes.empty()) nodes = nodes_of(topology, 0, topo::NodeKind::kCpu);
  std::vector<NearNics> rows;
  for (const topo::NodeId node : nodes) rows.push_back(row_of(finder, node));
  return rows;
}

std::string text_of(const std::vector<NearNics>& rows) {
  if (std::ranges::all_of(rows, [](const NearNics& row) { return row.nics.empty(); })) return "";
  const std::size_t hosts = equal_hosts(rows);
  const bool has_ranks = !rows.front().ranks.empty();
  std::vector<std::string> header = {"NODE", "NICS", "PATH GB/s", "WHERE"};
  if (has_ranks) header.insert(header.begin(), "RANK");
  Table table(std::move(header));
  for (const NearNics& row : rows) {
    if (hosts != 0 && row.host != rows.front().host) break;
    std::vector<std::string> cells = {hosts != 0 ? row.node : row.host + "/" + row.node, "none",
                                      "-", ""};
    if (!row.nics.empty()) {
      cells[1] = fmt::format("{}", fmt::join(row.nics, " "));
      cells[2] = fmt::format("{:.4g}", row.bandwidth);
      cells[3] = row.place;
    }
    if (has_ranks) cells.insert(cells.begin(), fmt::format("{}", fmt::join(row.ranks, " ")));
    table.add(std::move(cells));
  }
  const std::string scope =
      has_ranks ? scope_of(rows.front().host, hosts) : " of a host like this one";
  return fmt::format("\nNICs near to each GPU or CPU{}:\n\n{}", scope,
                     table.text({has_ranks ? 3U : 2U}));
}

}  // namespace tutti::tools
