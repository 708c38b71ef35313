// Networks that the tests and benchmarks share: machines from the literature, and random ones.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/topo/forest/network.hpp"

namespace tutti::topo::forest {

/// Writes a network down link by link. Capacities are units of 0.5 GB/s, so that NICs of 12.5 GB/s
/// are whole.
class NetworkBuilder {
 public:
  NetworkBuilder() { network_.unit = 0.5; }

  Vertex computes(std::string name) { return add(std::move(name), true); }
  Vertex switches(std::string name) { return add(std::move(name), false); }
  /// One direction, `gigabytes` per second.
  void one_way(Vertex from, Vertex to, double gigabytes) {
    network_.links.push_back({from, to, static_cast<std::int64_t>(gigabytes * 2)});
  }
  void both_ways(Vertex a, Vertex b, double gigabytes) {
    one_way(a, b, gigabytes);
    one_way(b, a, gigabytes);
  }
  [[nodiscard]] Network finish() && { return std::move(network_); }

 private:
  Vertex add(std::string name, bool computes) {
    network_.nodes.push_back({std::move(name), computes});
    return static_cast<Vertex>(network_.nodes.size() - 1);
  }
  Network network_;
};

/// `boxes` machines of 8 GPUs on an NVSwitch; with several, each GPU has `nic` GB/s to a network
/// switch for GPUs of its parity, as DGX A100 machines are often wired.
inline Network nvswitch_boxes(int boxes, double nvlink, double nic) {
  NetworkBuilder build;
  std::vector<Vertex> rails;
  if (boxes > 1) rails = {build.switches("ib0"), build.switches("ib1")};
  for (int box = 0; box < boxes; ++box) {
    const Vertex nvswitch = build.switches(fmt::format("nvs{}", box));
    for (int gpu = 0; gpu < 8; ++gpu) {
      const Vertex rank = build.computes(fmt::format("gpu{}.{}", box, gpu));
      build.both_ways(rank, nvswitch, nvlink);
      if (boxes > 1) build.both_ways(rank, rails[static_cast<std::size_t>(gpu % 2)], nic);
    }
  }
  return std::move(build).finish();
}

/// The NVLinks of a DGX-1 V100: a hybrid cube mesh, 6 links of 25 GB/s at each GPU.
inline constexpr int kCubeMesh[8][8] = {{0, 2, 1, 1, 2, 0, 0, 0}, {2, 0, 1, 2, 0, 1, 0, 0},
                                        {1, 1, 0, 2, 0, 0, 2, 0}, {1, 2, 2, 0, 0, 0, 0, 1},
                                        {2, 0, 0, 0, 0, 2, 1, 1}, {0, 1, 0, 0, 2, 0, 1, 2},
                                        {0, 0, 2, 0, 1, 1, 0, 2}, {0, 0, 0, 1, 1, 2, 2, 0}};

/// Adds one DGX-1 and returns its GPUs.
inline std::vector<Vertex> add_cube_mesh(NetworkBuilder& build, int box) {
  std::vector<Vertex> gpus;
  for (int gpu = 0; gpu < 8; ++gpu)
    gpus.push_back(build.computes(fmt::format("gpu{}.{}", box, gpu)));
  for (std::size_t a = 0; a < 8; ++a) {
    for (std::size_t b = 0; b < 8; ++b) {
      if (kCubeMesh[a][b] > 0) build.one_way(gpus[a], gpus[b], 25.0 * kCubeMesh[a][b]);
    }
  }
  return gpus;
}

inline Network dgx1() {
  NetworkBuilder build;
  add_cube_mesh(build, 0);
  return std::move(build).finish();
}

/// Two boxes of 16 GPUs, 125 GB/s to their NVSwitch; GPUs of odd number send to the GPU before
/// theirs in the other box, 12.5 GB/s (TE-CCL's model of DGX-2).
inline Network dgx2_boxes() {
  NetworkBuilder build;
  std::vector<Vertex> gpus;
  for (int box = 0; box < 2; ++box) {
    const Vertex nvswitch = build.switches(fmt::format("nvs{}", box));
    for (int gpu = 0; gpu < 16; ++gpu) {
      gpus.push_back(build.computes(fmt::format("gpu{}.{}", box, gpu)));
      build.both_ways(gpus.back(), nvswitch, 125);
    }
  }
  for (std::size_t i = 0; i < 16; i += 2) {
    build.one_way(gpus[i + 1], gpus[i + 16], 12.5);
    build.one_way(gpus[i + 17], gpus[i], 12.5);
  }
  return std::move(build).finish();
}

/// A torus of any number of dimensions with links of 1 GB/s; a ring is one of one dimension.
inline Network torus(const std::vector<int>& sizes) {
  NetworkBuilder build;
  int nodes = 1;
  for (const int size : sizes) nodes *= size;
  for (int v = 0; v < nodes; ++v) build.computes(fmt::format("n{}", v));
  int stride = 1;
  for (const int size : sizes) {
    for (int v = 0; v < nodes; ++v) {
      const int place = v / stride % size;
      const int next = v + ((place + 1) % size - place) * stride;
      build.both_ways(static_cast<Vertex>(v), static_cast<Vertex>(next), 1);
    }
    stride *= size;
  }
  return std::move(build).finish();
}

/// A ring in which the link from n0 to n1 has `left` GB/s instead of 1.
inline Network degraded_ring(int nodes, double left) {
  Network network = torus({nodes});
  for (Network::Link& link : network.links) {
    if (link.from == 0 && link.to == 1) link.capacity = static_cast<std::int64_t>(left * 2);
  }
  return network;
}

struct RandomShape {
  int ranks = 4;
  int switches = 2;
  bool symmetric = true;  ///< both directions of a link have one capacity
};

/// Connected: a random tree over all nodes, in both directions, and as many links again. The
/// switches of an asymmetric one are brought into balance.
inline Network random_network(std::mt19937_64& random, const RandomShape& shape) {
  const auto below = [&](std::uint64_t bound) { return static_cast<int>(random() % bound); };
  NetworkBuilder build;
  const int nodes = shape.ranks + shape.switches;
  // Compute nodes and switches are mixed.
  for (int v = 0, ranks = 0; v < nodes; ++v) {
    const bool computes = below(static_cast<std::uint64_t>(nodes - v)) < shape.ranks - ranks;
    ranks += computes ? 1 : 0;
    computes ? build.computes(fmt::format("c{}", v)) : build.switches(fmt::format("s{}", v));
  }
  const auto join = [&](int a, int b) {
    const auto from = static_cast<Vertex>(a);
    const auto to = static_cast<Vertex>(b);
    const double capacity = 1 + below(6);
    build.one_way(from, to, capacity);
    build.one_way(to, from, shape.symmetric ? capacity : 1 + below(6));
  };
  for (int v = 1; v < nodes; ++v) join(v, below(static_cast<std::uint64_t>(v)));
  for (int extra = 0; extra < nodes && nodes > 1; ++extra) {
    const int a = below(static_cast<std::uint64_t>(nodes));
    const int b = below(static_cast<std::uint64_t>(nodes));
    if (a != b) join(a, b);
  }
  return balanced(std::move(build).finish());
}

}  // namespace tutti::topo::forest
