// A machine for tests: hosts of GPUs, with a network where there are several.
#pragma once

#include <fmt/format.h>

#include "src/topo/model/builder.hpp"
#include "src/topo/model/topology.hpp"

namespace tutti::topo {

/// Each host has one CPU, a PCI switch for each GPU and NVLinks; its NIC hangs on the CPU.
inline Topology gpu_hosts(int hosts, int gpus) {
  Builder builder;
  const NodeId network = hosts > 1 ? builder.node(NodeKind::kSwitch, kNoHost, "switch") : 0;
  for (int at = 0; at < hosts; ++at) {
    const HostId host = builder.host(fmt::format("h{}", at));
    const NodeId cpu = builder.node(NodeKind::kCpu, host, "cpu0");
    const NodeId nvswitch = builder.node(NodeKind::kNvswitch, host, "nvswitch");
    for (int i = 0; i < gpus; ++i) {
      const NodeId slot = builder.node(NodeKind::kPci, host, fmt::format("pci{}", i));
      const NodeId gpu = builder.node(NodeKind::kGpu, host, fmt::format("gpu{}", i));
      builder.join(cpu, slot, LinkKind::kPci, 24);
      builder.join(slot, gpu, LinkKind::kPci, 24);
      builder.join(gpu, nvswitch, LinkKind::kNvlink, 450);
    }
    if (hosts == 1) continue;
    const NodeId nic = builder.node(NodeKind::kNic, host, "nic0");
    builder.join(cpu, nic, LinkKind::kPci, 50);
    builder.join(nic, network, LinkKind::kNetwork, 50);
  }
  return *std::move(builder).create();
}

}  // namespace tutti::topo
