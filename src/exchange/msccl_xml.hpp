// Schedules in the XML of MSCCL, which msccl-tools writes and which MSCCL and RCCL run.
//
// Words of that format: a *gpu* is a rank; a *tb* (thread block) runs its steps in order and owns
// at most one connection to send on and one to receive on; all thread blocks of a gpu run at once.
// A step waits for at most one step of another thread block, named by (depid, deps); `nop` steps
// before it wait for more. The k-th send on (source, destination, chan) pairs with the k-th
// receive. A connection holds two messages that nobody has received (Simple), or eight (LL, LL128).
//
// Source: the formats as read by microsoft/msccl (src/graph/topo.cc) and ROCm/rccl
// (src/misc/msccl/msccl_parser.cc); Cowan et al., "MSCCLang" (ASPLOS 2023).
#pragma once

#include <string>
#include <string_view>

#include "src/exchange/foreign.hpp"
#include "src/ir/schedule.hpp"
#include "tutti/error.hpp"

namespace tutti::exchange {

/// Reads both dialects. Errors (kInvalidArgument) name line, column, gpu, tb and step: broken XML,
/// values out of range, a wait that never ends, two thread blocks that touch a chunk in no fixed
/// order, and results that are not what the collective says. kUnsupported for what has no
/// counterpart here: collectives of the user's own, `ra` steps, all-to-all in place. Rooted
/// collectives have root 0: the format has no word for roots.
Result<Schedules> read_msccl_xml(std::string_view text);

/// docs/formats.md says how. kInvalidArgument when the format has no words for something in the
/// schedule.
Result<std::string> write_msccl_xml(const ir::Schedule& schedule);

}  // namespace tutti::exchange
