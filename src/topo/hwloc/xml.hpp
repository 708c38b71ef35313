// Machines as hwloc 2 and 3 write them in XML: `lstopo --of xml`.
//
// What becomes what:
//   NUMANode with CPUs      a kCpu node "cpu0", with NCCL's words for what it is (numaid, affinity,
//                           arch, vendor, familyid, modelid), its package, model and caches
//   Bridge                  of each PCI switch the upstream port, a kPci node named by its address
//   PCIDev with OSDevs      cuda, nvml or rsmi: a kGpu node; openfabrics or net: a kNic node each;
//                           a GPU by its PCI class also without
//   Machine                 the host, named by the caller or else by its HostName
//
// Left out: memory without CPUs, other devices, and hwloc's distances. hwloc does not say how fast
// a network is, so no link leads out of a NIC.
#pragma once

#include <string_view>

#include "src/topo/model/draft.hpp"
#include "src/topo/model/topology.hpp"
#include "tutti/error.hpp"

namespace tutti::topo {

/// Any bytes may be read. kInvalidArgument names line and column: text that is no XML of hwloc,
/// beyond the limits of xml_text.hpp, a value that is wrong. `host` "": the name that the text has.
Result<Noted> read_hwloc_xml(std::string_view text, std::string_view host);

/// Only the CPUs, and what the text says of the host; of an error nothing is added.
Status add_hwloc_cpus(std::string_view text, Draft& draft);

}  // namespace tutti::topo
