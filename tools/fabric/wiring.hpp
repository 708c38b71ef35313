// Copies a unit and joins the copies; private to tools/fabric.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/topo/model/topology.hpp"
#include "tools/fabric/fabric.hpp"

namespace tutti::topo {

/// Where a cable goes into a unit.
struct FabricPort {
  NodeId nic = 0;
  double bandwidth = 0;  ///< GB/s
};

/// The parts of a topology while a shape adds switches and cables to its units.
class Wiring {
 public:
  /// The units, nothing wired yet. Errors are those of join().
  static Result<Wiring> create(const Topology& unit, const FabricShape& shape);

  [[nodiscard]] std::uint32_t hosts() const { return hosts_; }
  /// NICs of one unit; 0 if its GPUs are the places.
  [[nodiscard]] std::uint32_t rails() const { return static_cast<std::uint32_t>(nics_.size()); }
  [[nodiscard]] FabricPort port(std::uint32_t host, std::uint32_t rail) const;
  /// All of them, those of a unit side by side.
  [[nodiscard]] std::vector<FabricPort> ports() const;

  /// One that adds, if the shape says so.
  NodeId add_switch(std::string name);
  /// A cable from a NIC to a switch, with a part of its bandwidth.
  void plug(const FabricPort& port, NodeId into, double share = 1);
  /// A cable between two switches or routers, with a part of its bandwidth.
  void cable(NodeId a, NodeId b, double share = 1);

  /// kInvalidArgument if so many cables more are too many. To be asked before a shape adds more of
  /// them than there are ports.
  [[nodiscard]] Status check_cables(std::uint64_t more) const;

  /// Places of a direct network: units, or their GPUs.
  [[nodiscard]] std::uint64_t places() const;
  /// How the places of a unit lie in a torus: lengths, of which the product is their number.
  [[nodiscard]] const std::vector<std::uint32_t>& block() const { return block_; }
  /// The router of a place, which `cables` cables will lead to: it forwards what is for others.
  NodeId add_router(std::uint64_t place, std::string name, std::uint32_t cables);

  Result<Topology> finish() && { return Topology::create(std::move(parts_)); }

 private:
  Status find_nics(const Topology& unit);
  Status find_chips(const Topology& unit);
  void copy_units(const Topology& unit);

  Parts parts_;
  std::uint32_t hosts_ = 0;
  NodeId unit_nodes_ = 0;
  std::vector<FabricPort> nics_;  // of one unit, as are chips_
  std::vector<NodeId> chips_;
  std::vector<std::uint32_t> block_;
  LinkKind cable_kind_ = LinkKind::kNetwork;
  double cable_bandwidth_ = 0;
  double cable_latency_ = 0;
  std::vector<Attribute> of_switches_;
};

// One function for each family of shapes. They expect a shape that passed check().
Status wire_tree(Wiring& wiring, const FabricShape& shape);       // the first four kinds
Status wire_dragonfly(Wiring& wiring, const FabricShape& shape);  // also plus
Status wire_jellyfish(Wiring& wiring, const FabricShape& shape);
Status wire_bigraph(Wiring& wiring, const FabricShape& shape);
Status wire_torus(Wiring& wiring, const FabricShape& shape);  // also the optical ring
Status wire_hamming_mesh(Wiring& wiring, const FabricShape& shape);
Status wire_bcube(Wiring& wiring, const FabricShape& shape);
Status wire_dcell(Wiring& wiring, const FabricShape& shape);

}  // namespace tutti::topo
