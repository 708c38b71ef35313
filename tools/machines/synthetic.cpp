// Builds what tools/machines/synthetic.hpp describes.
#include "tools/machines/synthetic.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "src/base/result.hpp"
#include "src/topo/model/aggregation.hpp"
#include "src/topo/model/builder.hpp"

namespace tutti::topo {
namespace {

using Shape = Synthetic::Shape;

void say(Builder& builder, NodeId node, const Aggregation& aggregation) {
  builder.say(node, std::string(kAggregationKey), text_of(aggregation));
}

/// A switch of the network, which adds where it shall.
NodeId add_network_switch(Builder& builder, const Synthetic& spec, std::string name) {
  const NodeId node = builder.node(NodeKind::kSwitch, kNoHost, std::move(name));
  if (spec.shape == Shape::kTofino)
    say(builder, node, {.outstanding = 0, .window = static_cast<double>(spec.slots) * spec.packet});
  else if (spec.sharp > 0)
    say(builder, node, {.trees = spec.sharp});
  return node;
}

/// Two sockets, a PCI switch for each GPU, an NVSwitch. Returns what the host's NICs plug into.
std::vector<NodeId> add_gpu_host(Builder& builder, const Synthetic& spec, HostId host) {
  const std::uint32_t gpus = spec.sizes[1], sockets = std::min(gpus, 2U);
  std::vector<NodeId> cpus, switches;
  for (std::uint32_t i = 0; i < sockets; ++i)
    cpus.push_back(builder.node(NodeKind::kCpu, host, fmt::format("cpu{}", i)));
  if (sockets == 2) builder.join(cpus[0], cpus[1], LinkKind::kSystem, spec.system);
  const bool nvlink = spec.nvlink > 0 && gpus > 1;
  const NodeId plane = nvlink ? builder.node(NodeKind::kNvswitch, host, "nvswitch") : 0;
  if (nvlink && spec.nvls == 1)
    say(builder, plane, {.trees = kMostSyntheticGroups, .outstanding = 0, .sums_in_parts = true});
  for (std::uint32_t i = 0; i < gpus; ++i) {
    switches.push_back(builder.node(NodeKind::kPci, host, fmt::format("pci{}", i)));
    const NodeId gpu = builder.node(NodeKind::kGpu, host, fmt::format("gpu{}", i));
    builder.join(cpus[std::uint64_t{i} * sockets / gpus], switches[i], LinkKind::kPci, spec.pci);
    builder.join(switches[i], gpu, LinkKind::kPci, spec.pci);
    if (nvlink) builder.join(gpu, plane, LinkKind::kNvlink, spec.nvlink);
  }
  return switches;
}

/// CPUs around their memory, which is also where NICs read and write.
std::vector<NodeId> add_cpu_host(Builder& builder, const Synthetic& spec, HostId host) {
  const NodeId memory = builder.node(NodeKind::kPci, host, "memory");
  for (std::uint32_t i = 0; i < spec.sizes[1]; ++i) {
    const NodeId cpu = builder.node(NodeKind::kCpu, host, fmt::format("cpu{}", i));
    builder.join(cpu, memory, LinkKind::kSystem, spec.memory);
  }
  return {memory};
}

/// The switches that NIC 0, 1, ... of every host plug into.
std::vector<NodeId> add_fabric(Builder& builder, const Synthetic& spec) {
  if (spec.fabric == Synthetic::Fabric::kSwitch)
    return std::vector<NodeId>(spec.nics, add_network_switch(builder, spec, "switch"));
  std::vector<NodeId> leaves;
  for (std::uint32_t i = 0; i < spec.nics; ++i)
    leaves.push_back(add_network_switch(builder, spec, fmt::format("leaf{}", i)));
  if (spec.nics == 1) return leaves;
  for (std::uint32_t i = 0; i < spec.spines; ++i) {
    const NodeId spine = add_network_switch(builder, spec, fmt::format("spine{}", i));
    for (const NodeId leaf : leaves)
      builder.join(leaf, spine, LinkKind::kNetwork, spec.network * spec.sizes[0] / spec.spines,
                   spec.latency);
  }
  return leaves;
}

/// A NIC is no bottleneck inside its host: its slot has at least its bandwidth.
void add_nics(Builder& builder, const Synthetic& spec, HostId host,
              const std::vector<NodeId>& slots, const std::vector<NodeId>& leaves) {
  for (std::uint32_t i = 0; i < spec.nics; ++i) {
    const NodeId nic = builder.node(NodeKind::kNic, host, fmt::format("nic{}", i));
    const NodeId slot = slots[i * slots.size() / spec.nics];
    builder.join(slot, nic, LinkKind::kPci, std::max(spec.pci, spec.network));
    builder.join(nic, leaves[i], LinkKind::kNetwork, spec.network, spec.latency);
  }
}

void add_hosts(Builder& builder, const Synthetic& spec) {
  const bool alone = spec.sizes[0] == 1;
  const std::vector<NodeId> leaves = alone ? std::vector<NodeId>() : add_fabric(builder, spec);
  for (std::uint32_t i = 0; i < spec.sizes[0]; ++i) {
    const HostId host = builder.host(fmt::format("h{}", i));
    const auto slots = spec.shape == Shape::kGpu ? add_gpu_host(builder, spec, host)
                                                 : add_cpu_host(builder, spec, host);
    if (!alone) add_nics(builder, spec, host, slots, leaves);
  }
}

/// "1.0.2" of a position in row-major order.
std::string coordinates(const std::vector<std::uint32_t>& sizes, std::uint32_t position) {
  std::string name;
  for (std::size_t d = sizes.size(); d-- > 0; position /= sizes[d])
    name = std::to_string(position % sizes[d]) + (name.empty() ? "" : ".") + name;
  return name;
}

/// A GPU and its router for every position, and a link from each to the next one in each dimension.
void add_grid(Builder& builder, const Synthetic& spec) {
  std::uint32_t positions = 1;
  for (const std::uint32_t size : spec.sizes) positions *= size;
  std::vector<NodeId> routers;
  const double all_links = spec.link * 2 * static_cast<double>(spec.sizes.size());
  for (std::uint32_t i = 0; i < positions; ++i) {
    const std::string name = coordinates(spec.sizes, i);
    const NodeId gpu = builder.node(NodeKind::kGpu, builder.host(name), "gpu");
    routers.push_back(builder.node(NodeKind::kNvswitch, kNoHost, name));
    builder.join(gpu, routers[i], LinkKind::kNvlink, all_links, 0);
  }
  const bool wraps = spec.shape != Shape::kMesh;
  std::uint32_t stride = positions;
  for (const std::uint32_t size : spec.sizes) {
    stride /= size;
    for (std::uint32_t i = 0; i < positions; ++i) {
      const std::uint32_t along = i / stride % size;
      if (along + 1 < size)
        builder.join(routers[i], routers[i + stride], LinkKind::kNvlink, spec.link, spec.latency);
      else if (wraps && size > 2)
        builder.join(routers[i], routers[i - along * stride], LinkKind::kNvlink, spec.link,
                     spec.latency);
    }
  }
}

}  // namespace

Result<Topology> build(const Synthetic& synthetic) {
  Builder builder;
  const bool has_hosts = synthetic.shape == Shape::kGpu || synthetic.shape == Shape::kCpu ||
                         synthetic.shape == Shape::kTofino;
  if (has_hosts)
    add_hosts(builder, synthetic);
  else
    add_grid(builder, synthetic);
  return std::move(builder).create();
}

Result<Topology> synthetic_topology(std::string_view text) {
  TUTTI_ASSIGN(const Synthetic synthetic, parse_synthetic(text));
  return build(synthetic);
}

}  // namespace tutti::topo
