// The RDMA devices of this machine, as text.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "src/topo/detect/acs.hpp"
#include "src/verbs/facts.hpp"
#include "tutti/error.hpp"

namespace tutti::tools {

/// What else decides whether and how RDMA works here.
struct RdmaSurroundings {
  std::int64_t lock_limit = -1;  ///< bytes that a process may lock; -1: without limit
  bool nvidia_peermem = false;   ///< the kernel's module is loaded
  /// By device: why it takes no DMA-BUF; empty: it takes them, or nobody asked.
  std::map<std::string, std::string> no_dma_buf{};
  /// By device: sentences on the PCI bridges above it.
  std::map<std::string, std::string> bridges{};
  std::vector<std::string> used{};  ///< "mlx5_0:1 (10.0.0.1, RoCE v2, MTU 4096)": by communicators
  std::vector<std::string> left_out{};  ///< sentences: which ports are not, and why
};

/// What ACS on a device's path does to GPU traffic; "" if there is nothing to say.
std::string acs_text(const topo::AcsOnPath& path);
/// Devices, ports, addresses and limits; what is wrong is said with its remedy.
std::string rdma_text(std::span<const verbs::DeviceFacts> devices, const RdmaSurroundings& around);

/// The same of this machine. kUnsupported if it has no libibverbs, or this build no RDMA.
Result<std::string> rdma_of_this_machine();

}  // namespace tutti::tools
