// How fast a network interface is, measured by the ranks of a job.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/topo/detect/probe.hpp"
#include "src/topo/model/topology.hpp"
#include "tutti/error.hpp"

namespace tutti::tools {

/// The interface through which this host speaks with the others, and what passed through it.
struct InterfaceSpeed {
  std::string name;
  double bandwidth = 0;  ///< GB/s each way, both ways at once
  std::string between;   ///< "2 ranks on 2 hosts: node-a, node-b"
};

/// Joins the job of the environment and sends data between its hosts for about `seconds`:
/// collective over its ranks. nullopt on all but rank 0. kInvalidArgument where the job has one
/// host.
Result<std::optional<InterfaceSpeed>> measure_interface(double seconds);

/// A system on which an interface has the speed that was measured. What the driver of a device
/// tells and TCP did not reach stays, since RDMA may reach it; a virtual interface tells what it
/// likes.
class MeasuredProbe final : public topo::SystemProbe {
 public:
  MeasuredProbe(SystemProbe& system, InterfaceSpeed measured)
      : system_(system), measured_(std::move(measured)) {}

  Result<std::string> read_file(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& path) override {
    return system_.list(path);
  }
  Result<std::string> link_target(const std::string& path) override {
    return system_.link_target(path);
  }
  Result<std::string> hwloc_xml() override { return system_.hwloc_xml(); }
  Result<std::vector<cuda::GpuFacts>> gpus() override { return system_.gpus(); }

  /// What was measured, and what detection made of it: a sentence.
  [[nodiscard]] std::string sentence() const;

 private:
  SystemProbe& system_;
  InterfaceSpeed measured_;
  long told_ = 0;  // Mbit/s; 0: none
  bool is_kept_ = false;
};

}  // namespace tutti::tools
