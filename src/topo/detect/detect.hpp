// Finds out what this machine is made of. Any SystemProbe can stand for the machine.
//
// Sources: hwloc for CPUs and memory (without it Linux's sysfs), sysfs for PCI, network
// interfaces and InfiniBand, NVML for GPUs and their NVLinks. Names and attributes are those of
// NCCL's XML where that has them (src/topo/nccl/xml.hpp): "cpu0", "gpu0", "mlx5_0".
//
//   GPU     with NVLinks to other GPUs, or to one NVSwitch node, and C2C links to its CPU
//   NIC     an InfiniBand or RoCE port, or a network interface, that is up; virtual interfaces only
//           where there is no other
//   switch  "mlx5_0.network", the outside of each NIC: what lies behind it
//           cannot be seen from here. Virtual functions share that of their physical function,
//           whose port they use.
//   host    attributes say what this process may use of it: affinity, cpuset, cpu_limit (in CPUs),
//           container, network_namespace ("init", or "own"); and its maker and product
#pragma once

#include "src/topo/detect/probe.hpp"
#include "src/topo/model/topology.hpp"
#include "tutti/error.hpp"

namespace tutti::topo {

/// What cannot be read, or says nothing usable, is assumed and noted in a sentence that names it.
/// kUnavailable only where the system answers nothing at all. Equal answers give equal topologies.
Result<Noted> detect(SystemProbe& system);

}  // namespace tutti::topo
