// Schedules in the XML of MSCCL, which msccl-tools writes and MSCCL and RCCL run.
//
// Words of that format: a *gpu* is a rank. A *tb* (thread block) runs its steps in order and owns
// at most one connection to send on and one to receive on. All thread blocks of a gpu run
// concurrently. A step waits for at most one step of another thread block, named by (depid, deps);
// `nop` steps before it express further waits. The k-th send on (source, destination, chan) pairs
// with the k-th receive. A connection holds at most two unreceived messages (Simple) or eight (LL,
// LL128).
//
// Source: the formats as read by microsoft/msccl (src/graph/topo.cc) and ROCm/rccl
// (src/misc/msccl/msccl_parser.cc); Cowan et al., "MSCCLang" (ASPLOS 2023).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/exchange/foreign.hpp"
#include "src/ir/schedule.hpp"
#include "tutti/error.hpp"

namespace tutti::exchange {

/// Reads both dialects. Errors (kInvalidArgument) name line, column, gpu, tb and step. They report
/// broken XML, values out of range, waits that never end, races between thread blocks, and wrong
/// results. kUnsupported for what Tutti lacks: `ra` steps, all-to-all in place, and `custom`
/// collectives that turn out to be none of ours. Rooted collectives get root 0, because the format
/// cannot name roots. `notes`, if given, gets a line for each kind of element that was skipped.
Result<Schedules> read_msccl_xml(std::string_view text, std::vector<std::string>* notes = nullptr);

/// Writes the form that docs/formats.md describes. kInvalidArgument when the format cannot express
/// something in the schedule.
Result<std::string> write_msccl_xml(const ir::Schedule& schedule);

}  // namespace tutti::exchange
