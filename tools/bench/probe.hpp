// Measures the copy bandwidth that "%limit" compares with (tools/bench/limit.hpp).
#pragma once

#include <cstddef>

#include "tools/bench/crew.hpp"
#include "tools/bench/limit.hpp"
#include "tools/bench/series.hpp"
#include "tutti/error.hpp"

namespace tutti::bench {

/// Collective over all crews of a job on one host; the same result on each. Every thread copies
/// from the send to the receive buffers of its ranks, which must hold probe_sizes(largest).back()
/// bytes, all at the same time, with ordinary and with streaming stores; the faster counts. Takes
/// 13 ms for each size, so at most 70 ms. The buffers hold anything afterwards.
Result<CopyBandwidth> probe_copies(Crew& crew, const CrewBuffers& buffers, std::size_t largest);

}  // namespace tutti::bench
