// NCCL's topology files: NCCL_TOPO_FILE gives one to NCCL, NCCL_TOPO_DUMP_FILE lets it write one.
//
//   <system version="1">
//     <cpu numaid="0" arch="x86_64" ...>
//       <pci busid="0000:07:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
//         <gpu dev="0" sm="80" rank="0" gdr="1">
//           <nvlink target="0000:c4:00.0" count="12" tclass="0x068000"/>
//
// What becomes what:
//   cpu            a kCpu node; the CPUs of a host are joined with one another
//   pci            a kPci node with a link to the element that it stands in
//   pci with gpu   one kGpu node; so is a pci of a GPU's class without a gpu in it
//   pci with nic   one kNic node, if the nic has one net or none; else a kPci node, a kNic each net
//   nvlink, xgmi, c2c, pcilink
//                  links; a node's links to the same target are one; xgmi is RCCL's
//   NVSwitches     one kNvswitch node each host; where several hosts have NVSwitches, one for all,
//                  since NCCL fuses files of several hosts only where they share an NVLink fabric
//   host_hash      CPUs of equal values are one host; it has the value's name, or "host"
//
// Nothing is lost: attributes stay word for word. One that the format has stands under its own name
// (`busid`, `sm`, `speed` in Mbit/s), another behind its element's (`gpu.colour`). An element that
// becomes no node is kept as text under its parent and position: `gpu/0`, `<nvlink .../>`; those
// of <system> are attributes of the first host. `elements` says which elements a node was made of
// where that is not what its kind suggests. Comments are not kept.
//
// Bandwidths follow from the attributes by the tables of src/topo/model/bandwidths.hpp. Latencies
// are no part of the format, and 0 unless an attribute `tutti_latency_us` of cpu, pci, nvlink,
// xgmi, c2c or pcilink gives one.
#pragma once

#include <string>
#include <string_view>

#include "src/topo/model/topology.hpp"
#include "tutti/error.hpp"

namespace tutti::topo {

/// Any bytes may be read. kInvalidArgument names line and column: text that is no XML, elements
/// beyond the limits of xml_text.hpp, a missing or wrong value. What the file does not say and had
/// to be assumed, and what is kept but means nothing here, are the assumptions, each with the place
/// where it was first met.
Result<Noted> read_nccl_xml(std::string_view text);

/// A topology that came from XML is written as it was read, up to comments and layout, whatever its
/// links say now. For others the elements and attributes follow from nodes and links; PCIe
/// bandwidths are rounded to what a generation and a width give, latencies and the network beyond
/// the NICs are left out. kInvalidArgument where a node's attribute cannot stand in XML, or
/// elements would lie deeper than is read.
Result<std::string> write_nccl_xml(const Topology& topology);

}  // namespace tutti::topo
