// Machines as papers on synthesised schedules draw them, with the optimum that is published for
// each.
#pragma once

#include <array>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "src/topo/model/topology.hpp"
#include "tools/sim/machine.hpp"

namespace tutti::sim {

using topo::NodeId;
using topo::NodeKind;

/// Writes a topology down node by node. GB/s and microseconds.
class Draft {
 public:
  topo::HostId host() {
    parts_.hosts.push_back({fmt::format("b{}", parts_.hosts.size()), {}});
    return static_cast<topo::HostId>(parts_.hosts.size() - 1);
  }
  NodeId node(NodeKind kind, topo::HostId host) {
    parts_.nodes.push_back({kind, host, fmt::format("n{}", parts_.nodes.size()), {}});
    return static_cast<NodeId>(parts_.nodes.size() - 1);
  }
  void one_way(NodeId from, NodeId to, double bandwidth, double latency = 0) {
    parts_.links.push_back({from, to, topo::LinkKind::kNvlink, bandwidth, latency});
  }
  void join(NodeId a, NodeId b, double bandwidth, double latency = 0) {
    one_way(a, b, bandwidth, latency);
    one_way(b, a, bandwidth, latency);
  }
  [[nodiscard]] simtool::Machine finish(const std::string& name) const {
    return *simtool::machine_of(name, *topo::Topology::create(parts_));
  }

 private:
  topo::Parts parts_;
};

/// Boxes of GPUs on an NVSwitch; with several, each GPU has `nic` GB/s to a network switch for GPUs
/// of its parity, as DGX A100 machines are often wired (ForestColl's model).
inline simtool::Machine boxes(int count, int gpus, double nvlink, double nic) {
  Draft draft;
  std::vector<NodeId> rails;
  for (int i = 0; i < 2 && count > 1; ++i)
    rails.push_back(draft.node(NodeKind::kSwitch, topo::kNoHost));
  for (int box = 0; box < count; ++box) {
    const topo::HostId host = draft.host();
    const NodeId nvswitch = draft.node(NodeKind::kNvswitch, host);
    for (int i = 0; i < gpus; ++i) {
      const NodeId gpu = draft.node(NodeKind::kGpu, host);
      draft.join(gpu, nvswitch, nvlink);
      if (count > 1) draft.join(gpu, rails[static_cast<std::size_t>(i) % 2], nic);
    }
  }
  return draft.finish("boxes");
}

/// Two boxes of 16 GPUs, 125 GB/s to their switch; GPUs of odd number send to the GPU before theirs
/// in the other box, 12.5 GB/s (TE-CCL's model of DGX-2).
inline simtool::Machine dgx2() {
  Draft draft;
  std::vector<NodeId> gpus;
  for (int box = 0; box < 2; ++box) {
    const topo::HostId host = draft.host();
    const NodeId nvswitch = draft.node(NodeKind::kNvswitch, host);
    for (int i = 0; i < 16; ++i) {
      gpus.push_back(draft.node(NodeKind::kGpu, host));
      draft.join(gpus.back(), nvswitch, 125, 0.35);
    }
  }
  for (std::size_t i = 0; i < 16; i += 2) {
    draft.one_way(gpus[i + 1], gpus[i + 16], 12.5, 2.6);
    draft.one_way(gpus[i + 17], gpus[i], 12.5, 2.6);
  }
  return draft.finish("dgx2");
}

/// NVLinks of a DGX-1 between its 8 GPUs, in pieces of 25 GB/s: 6 at each.
inline std::vector<NodeId> add_cube_mesh(Draft& draft, double latency) {
  constexpr int kLinks[8][8] = {{0, 2, 1, 1, 2, 0, 0, 0}, {2, 0, 1, 2, 0, 1, 0, 0},
                                {1, 1, 0, 2, 0, 0, 2, 0}, {1, 2, 2, 0, 0, 0, 0, 1},
                                {2, 0, 0, 0, 0, 2, 1, 1}, {0, 1, 0, 0, 2, 0, 1, 2},
                                {0, 0, 2, 0, 1, 1, 0, 2}, {0, 0, 0, 1, 1, 2, 2, 0}};
  const topo::HostId host = draft.host();
  std::vector<NodeId> gpus;
  for (int i = 0; i < 8; ++i) gpus.push_back(draft.node(NodeKind::kGpu, host));
  for (std::size_t a = 0; a < 8; ++a)
    for (std::size_t b = 0; b < 8; ++b)
      if (kLinks[a][b] > 0) draft.one_way(gpus[a], gpus[b], 25.0 * kLinks[a][b], latency);
  return gpus;
}

inline simtool::Machine dgx1() {
  Draft draft;
  add_cube_mesh(draft, 0.7);
  return draft.finish("dgx1");
}

/// Two boxes: GPU 1 of each sends to GPU 0 of the other. More: through a switch (TE-CCL's model of
/// NDv2).
inline simtool::Machine ndv2(int count) {
  Draft draft;
  std::vector<std::vector<NodeId>> gpus;
  for (int box = 0; box < count; ++box) gpus.push_back(add_cube_mesh(draft, 0.7));
  if (count == 2) {
    draft.one_way(gpus[0][1], gpus[1][0], 12.5, 1.3);
    draft.one_way(gpus[1][1], gpus[0][0], 12.5, 1.3);
    return draft.finish("ndv2");
  }
  const NodeId network = draft.node(NodeKind::kSwitch, topo::kNoHost);
  for (const auto& box : gpus) {
    draft.one_way(box[1], network, 12.5, 1.3);
    draft.one_way(network, box[0], 12.5, 1.3);
  }
  return draft.finish("ndv2");
}

/// Boxes of 16 dies with the xGMI links that ForestColl's code gives them, in pieces of 50 GB/s;
/// with several, each die has `nic` GB/s to one network switch.
inline simtool::Machine mi250(int count, double nic) {
  constexpr std::array<std::array<int, 3>, 28> kLinks = {
      {{0, 1, 4},   {0, 4, 2},   {0, 8, 1},   {1, 5, 1},   {1, 9, 1},   {1, 10, 1},  {2, 3, 4},
       {2, 6, 1},   {2, 9, 1},   {2, 10, 1},  {3, 7, 2},   {3, 11, 1},  {4, 5, 4},   {4, 6, 1},
       {5, 6, 1},   {5, 7, 1},   {6, 7, 4},   {8, 9, 4},   {8, 12, 2},  {9, 13, 1},  {10, 11, 4},
       {10, 14, 1}, {11, 15, 2}, {12, 13, 4}, {12, 14, 1}, {13, 14, 1}, {13, 15, 1}, {14, 15, 4}}};
  Draft draft;
  NodeId network = 0;
  if (count > 1) network = draft.node(NodeKind::kSwitch, topo::kNoHost);
  for (int box = 0; box < count; ++box) {
    const topo::HostId host = draft.host();
    std::vector<NodeId> dies;
    for (int i = 0; i < 16; ++i) {
      dies.push_back(draft.node(NodeKind::kGpu, host));
      if (count > 1) draft.join(dies.back(), network, nic);
    }
    for (const auto& [a, b, pieces] : kLinks)
      draft.join(dies[static_cast<std::size_t>(a)], dies[static_cast<std::size_t>(b)],
                 50.0 * pieces);
  }
  return draft.finish("mi250");
}

/// Links of 1 GB/s between neighbours; a ring has one size.
inline simtool::Machine torus(const std::vector<NodeId>& sizes) {
  Draft draft;
  const topo::HostId host = draft.host();
  NodeId nodes = 1;
  for (const NodeId size : sizes) nodes *= size;
  for (NodeId i = 0; i < nodes; ++i) draft.node(NodeKind::kGpu, host);
  NodeId stride = 1;
  for (const NodeId size : sizes) {
    for (NodeId i = 0; i < nodes; ++i) {
      const NodeId place = i / stride % size;
      draft.join(i, i - place * stride + (place + 1) % size * stride, 1);
    }
    stride *= size;
  }
  return draft.finish("torus");
}

struct Published {
  std::string_view name;
  simtool::Machine (*machine)();
  double all_gather;  ///< GB/s of algorithm bandwidth; an all-reduce has half of it
  friend std::ostream& operator<<(std::ostream& out, const Published& published) {
    return out << published.name;
  }
};

/// Zhao et al., ForestColl (arXiv 2402.06787), its models of A100, H100 and MI250; Liu et al.,
/// TE-CCL (SIGCOMM 2024), its models of NDv2 and DGX-2; n B / (n-1) for the others, whose ranks
/// limit them.
inline const std::vector<Published>& published() {
  static const std::vector<Published> machines = {
      {"dgx1", dgx1, 171.43},
      {"ring_8", [] { return torus({8}); }, 2.286},
      {"torus_4x4", [] { return torus({4, 4}); }, 4.267},
      {"torus_8x8", [] { return torus({8, 8}); }, 4.063},
      {"torus_4x4x4", [] { return torus({4, 4, 4}); }, 6.095},
      {"a100_1x8", [] { return boxes(1, 8, 300, 0); }, 342.86},
      {"a100_2x8", [] { return boxes(2, 8, 300, 25); }, 346.67},
      {"a100_4x8", [] { return boxes(4, 8, 300, 25); }, 266.67},
      {"h100_2x8", [] { return boxes(2, 8, 450, 50); }, 533.33},
      {"h100_4x8", [] { return boxes(4, 8, 450, 50); }, 516.13},
      {"h800_2x8", [] { return boxes(2, 8, 200, 50); }, 266.67},
      {"mi250_1x16", [] { return mi250(1, 0); }, 342.86},
      {"mi250_2x16_16", [] { return mi250(2, 16); }, 354.13},
      {"mi250_2x16_12", [] { return mi250(2, 12.5); }, 346.67},
      {"ndv2_2x8", [] { return ndv2(2); }, 25.0},
      {"ndv2_4x8", [] { return ndv2(4); }, 16.667},
      {"dgx2_2x16", dgx2, 129.03},
  };
  return machines;
}

}  // namespace tutti::sim
