// Machines as `nvidia-smi topo -m` prints them: a matrix of how each GPU and NIC reaches each
// other.
//
//           GPU0   GPU1   NIC0   CPU Affinity   NUMA Affinity   GPU NUMA ID
//   GPU0     X     NV12   PXB    0-23           0               N/A
//   GPU1    NV12    X     SYS    24-47          1               N/A
//   NIC0    PXB    SYS     X
//
// A matrix of distances is no graph. What becomes what:
//   NUMA Affinity    a kCpu node "cpu0" for each number; where there is none, for each set of
//                    devices that are nearer than SYS, of equal CPU affinity, or joined by NVLinks
//                    with nothing that tells them apart
//   PIX              both below one kPci node
//   PXB              their kPci nodes below another, common one
//   PHB, NODE, SYS   no more than the CPUs say already
//   NV#              so many NVLinks; where they are more than any GPU has in all, they lead to
//                    NVSwitches, one kNvswitch node
//   NIC Legend       the names of NICs
//
// The matrix tells no speeds: those of PCI are assumed, those of NVLinks follow from their number.
#pragma once

#include <string_view>

#include "src/topo/model/topology.hpp"
#include "tutti/error.hpp"

namespace tutti::topo {

/// Reads a matrix as it was printed or pasted: with tabs or blanks, with lines before and after it,
/// with colours. Any bytes may be read. kInvalidArgument names line and column.
Result<Noted> read_smi_matrix(std::string_view text);

}  // namespace tutti::topo
