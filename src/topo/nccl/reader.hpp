// The two steps of read_nccl_xml, read.cpp and links.cpp, and the data that they pass on.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "src/topo/format/xml_text.hpp"
#include "src/topo/model/topology.hpp"
#include "tutti/error.hpp"

namespace tutti::topo::nccl {

/// What had to be assumed: each sentence once, with the place where it was first needed and how
/// often. Of sentences that the file's own words make differ, the first 100 are kept.
class Assumptions {
 public:
  explicit Assumptions(const XmlText& xml) : xml_(xml) {}
  void add(pugi::xml_node where, const std::string& sentence);
  [[nodiscard]] std::vector<std::string> sentences() const;

 private:
  static constexpr std::size_t kMost = 100;

  struct Entry {
    std::string sentence;
    pugi::xml_node first;
    std::size_t times = 0;
  };

  const XmlText& xml_;
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> known_;  // position in entries_
};

/// An element, the node that it is part of and the CPU that it stands in.
struct InNode {
  NodeId node = 0;
  pugi::xml_node element;
  NodeId cpu = 0;
};

/// All nodes of a file, the links between elements that stand in one another, and what the other
/// links are made from.
struct Elements {
  Parts parts;
  std::vector<InNode> cpus;  ///< the elements themselves
  std::vector<InNode> pcis;  ///< also those that are part of a GPU or NIC
  std::vector<InNode> gpus;  ///< the <gpu> elements
};

/// The name of the NVSwitches, which no other node of a host gets.
inline constexpr const char* kNvswitches = "nvswitch";

/// The links of <nvlink>, <xgmi>, <c2c> and <pcilink>, and between CPUs, behind those that are
/// there.
Status add_links(const XmlText& xml, Elements& elements, Assumptions& assumptions);

/// What a PCIe link can carry, GB/s in one direction, from link_speed and link_width of `pci`.
Result<double> bandwidth_of_pci(const XmlText& xml, pugi::xml_node pci, Assumptions& assumptions);
/// What goes from this CPU to another of its host, from arch, vendor, familyid and modelid.
Result<double> bandwidth_of_cpu(const XmlText& xml, pugi::xml_node cpu, Assumptions& assumptions);
/// What one NVLink carries, from sm.
Result<double> bandwidth_of_nvlink(const XmlText& xml, pugi::xml_node gpu,
                                   Assumptions& assumptions);
/// What one xGMI link carries, from gcn.
double bandwidth_of_xgmi(pugi::xml_node gpu, Assumptions& assumptions);

}  // namespace tutti::topo::nccl
