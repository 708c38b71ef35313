// The machine that `tutti sim` simulates: a topology, one of the two switches of the papers, or
// plain hosts that were measured.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/cost/calibration.hpp"
#include "src/ir/layout.hpp"
#include "src/lower/program.hpp"
#include "src/sim/fabric.hpp"
#include "src/sim/simulate.hpp"
#include "src/topo/model/topology.hpp"
#include "tutti/error.hpp"

namespace tutti::simtool {

/// How the machine is named on the command line: one of the first four, or none for this one.
struct MachineOptions {
  std::string topology;  ///< a file or a text, see load_topology()
  std::int32_t uniform = 0;
  std::string two_level;    ///< "NODESxRANKS"
  std::string hosts;        ///< likewise
  std::string calibration;  ///< a file
  double alpha_us = 5;      ///< of the switches: microseconds from rank to rank
  double beta_gbs = 25;     ///< of the switches: GB/s of a rank, or of its network interface
  double inner_alpha_us = 1;
  double inner_gbs = 450;
  bool in_network = false;        ///< the switch (of two levels: between the nodes) adds and copies
  bool inner_in_network = false;  ///< the switches in the nodes do
};

/// Movable; the fabric refers to the topology.
struct Machine {
  std::string name;  ///< for titles
  ir::Layout layout;
  std::unique_ptr<topo::Topology> topology;  ///< null for a switch
  topo::Placement placement;                 ///< of the ranks on the topology
  std::optional<sim::UniformSwitch::Shape> uniform;
  std::optional<sim::TwoLevelSwitch::Shape> two_level;
  /// What the ranks themselves cost, where it is known; else they are free, but for sim::Costs.
  std::optional<Calibration> calibration;
  bool is_hosts = false;     ///< predicted from the calibration alone: it has the links
  lower::Placement on_host;  ///< with a calibration
  std::unique_ptr<sim::Fabric> fabric;
  std::vector<std::string> assumptions;  ///< a sentence each
  [[nodiscard]] std::int32_t ranks() const { return fabric->ranks(); }
};

/// Where switches add and copy for groups of ranks.
struct Adding {
  bool in_hosts = false;
  bool between_hosts = false;
  [[nodiscard]] bool anywhere() const { return in_hosts || between_hosts; }
};
Adding adding_of(const Machine& machine);

/// The only place where the value of --topology gets a meaning: the path of a file, in any format
/// that `tutti topo` reads, or else the text of a synthetic machine (tools/machines/synthetic.hpp)
/// or of one made of presets (tools/machines/machine.hpp). kInvalidArgument or kUnavailable says
/// what is wrong.
Result<topo::Noted> load_topology(const std::string& text);

/// One rank on every GPU of the topology, or on every CPU node where there is no GPU. `layout`:
/// that of the ranks, if it is known better than from the hosts.
Result<Machine> machine_of(std::string name, topo::Topology topology, ir::Layout layout = {});

/// The machine with some links slower, as planners and bounds should see it. A switch of the papers
/// has one bandwidth for all links and stays as it is: its bounds hold, but are not tight.
Result<Machine> slowed(const Machine& machine, std::span<const sim::SlowLink> slow_links);

/// The calibration in a file, or the default where none is named.
Result<Calibration> load_calibration(const std::string& path);

/// A rank for each processor that this process may use, and at least 2.
std::int32_t ranks_of_this_machine();

/// kInvalidArgument where several machines are named, or one that makes no sense. Where none is,
/// it is one host of ranks_of_this_machine(), as fast as the calibration says.
Result<Machine> make_machine(const MachineOptions& options);

}  // namespace tutti::simtool
