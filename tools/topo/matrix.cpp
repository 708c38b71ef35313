// The matrices of `tutti topo --matrix` and `--bandwidths`.
#include <algorithm>
#include <bitset>

#include <fmt/format.h>

#include "src/topo/model/paths.hpp"
#include "tools/program/cli.hpp"
#include "tools/topo/text.hpp"

namespace tutti::tools {
namespace {

using topo::NodeId;
using topo::NodeKind;
using topo::PathKind;

constexpr std::string_view kMeanings[topo::kPathKinds] = {
    "the node itself",
    "NVLink, perhaps through an NVSwitch",
    "two NVLinks, through the memory of the GPU between them",
    "the link between a GPU and its CPU",
    "PCI, at most one switch",
    "PCI, several switches, not the CPU",
    "PCI on the one side of a CPU, C2C on the other",
    "a NIC that is reached through another GPU, over NVLink",
    "PCI and the CPU that it hangs from",
    "the link between CPUs",
    "the network",
    "no way",
};

std::vector<NodeId> rows_of(const topo::Topology& topology) {
  std::vector<NodeId> rows;
  for (topo::HostId host = 0; host < topology.hosts().size(); ++host)
    for (const NodeKind kind : {NodeKind::kGpu, NodeKind::kNic, NodeKind::kCpu})
      for (const NodeId node : topology.nodes_of(host))
        if (topology.node(node).kind == kind) rows.push_back(node);
  return rows;
}

std::string label(const topo::Topology& topology, NodeId node) {
  return topology.hosts().size() == 1 ? topology.node(node).name : topo::full_name(topology, node);
}

/// The CPU node that a row belongs to; the row itself where it belongs to none.
NodeId home_of(const Arrangement& arrangement, NodeId node) {
  return arrangement.topology().node(node).kind == NodeKind::kCpu ? node
                                                                  : arrangement.root_of(node);
}

std::string legend(const std::bitset<topo::kPathKinds>& seen) {
  std::string text = "\nX    the node itself\n";
  for (int kind = 1; kind < topo::kPathKinds; ++kind)
    if (seen[kind])
      text += fmt::format("{:<5}{}\n", topo::name_of(static_cast<PathKind>(kind)), kMeanings[kind]);
  return text;
}

}  // namespace

std::string matrix(const Arrangement& arrangement, Cells cells) {
  const topo::Topology& topology = arrangement.topology();
  std::vector<NodeId> rows = rows_of(topology);
  if (rows.empty()) return "no GPU, NIC or CPU\n";
  const std::size_t all = rows.size();
  rows.resize(std::min(all, kMostMatrixRows));

  const auto home = [&](NodeId row) -> const topo::Node& {
    return topology.node(home_of(arrangement, row));
  };
  const auto any = [&](auto says) { return std::ranges::any_of(rows, says); };
  const bool cpus = any([&](NodeId row) { return !cpus_of(home(row)).empty(); });
  const bool numa = any([&](NodeId row) { return !attribute(home(row), "numaid").empty(); });

  std::vector<std::string> header = {""};
  for (const NodeId row : rows) header.push_back(label(topology, row));
  if (cpus) header.emplace_back("CPUs");
  if (numa) header.emplace_back("NUMA");
  Table table(header);
  std::bitset<topo::kPathKinds> seen;
  topo::PathFinder finder(topology);
  for (const NodeId from : rows) {
    std::vector<std::string> cells_of_row = {label(topology, from)};
    for (const NodeId to : rows) {
      const topo::Path path = finder.find(from, to);
      seen.set(static_cast<std::size_t>(path.kind));
      if (from == to)
        cells_of_row.emplace_back("X");
      else if (cells == Cells::kKinds)
        cells_of_row.emplace_back(topo::name_of(path.kind));
      else
        cells_of_row.push_back(path.bandwidth > 0 ? gigabytes(path.bandwidth) : "-");
    }
    if (cpus) cells_of_row.push_back(cpus_of(home(from)));
    if (numa) cells_of_row.emplace_back(attribute(home(from), "numaid"));
    table.add(std::move(cells_of_row));
  }
  std::vector<std::size_t> numbers;
  if (cells == Cells::kBandwidths)
    for (std::size_t i = 1; i <= rows.size(); ++i) numbers.push_back(i);
  std::string text = table.text(numbers);
  if (all > rows.size())
    text += fmt::format("\nthe first {} of {} GPUs, NICs and CPUs\n", rows.size(), all);
  return text + (cells == Cells::kKinds
                     ? legend(seen)
                     : "\nGB/s from the row's node to the column's, of the narrowest link on the "
                       "path that --matrix shows; -: no way\n");
}

}  // namespace tutti::tools
