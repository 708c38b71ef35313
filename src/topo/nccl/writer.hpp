// The steps of write_nccl_xml: which node contains which (tree.cpp), attributes that topologies
// from other sources lack (derive.cpp), the text (write.cpp).
#pragma once

#include <optional>
#include <vector>

#include "src/topo/model/topology.hpp"

namespace tutti::topo::nccl {

/// How the nodes of all hosts stand in one another: GPUs, NICs and PCIe switches in the switch or
/// CPU that they are attached to.
struct Tree {
  std::vector<NodeId> roots;                   ///< CPUs, ascending
  std::vector<std::vector<NodeId>> inside;     ///< of each node, ascending
  std::vector<std::optional<LinkId>> uplinks;  ///< of each node, to what it stands in
  std::vector<NodeId> loose;  ///< attached to no CPU, and the first of what hangs together
};

/// PCIe links in their order, each used that attaches something: so a tree that was read from a
/// file, whose further PCIe links come last, is found again.
Tree find_tree(const Topology& topology);

/// The attributes that the nodes of a topology from elsewhere need in NCCL's files, beside those
/// that they have: a list for each node.
std::vector<std::vector<Attribute>> derive_words(const Topology& topology, const Tree& tree);

}  // namespace tutti::topo::nccl
