// Lowered programs run by one thread with the host's arithmetic: what the device interpreter is
// held to. No slices, shares, counters or packets; a chunk at a time, ranks in turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/exec/chunk_places.hpp"
#include "src/lower/program.hpp"

namespace tutti::device::testing {

/// A call on all ranks.
struct Call {
  const lower::Lowered* lowered = nullptr;
  exec::Volume volume;
  ReduceOp op = ReduceOp::kSum;
  std::vector<std::uint64_t> factor_bits;  ///< of each rank
};

/// A rank's memory with its buffers, which overlap where they are in place.
struct RankMemory {
  std::vector<std::byte> bytes;
  std::size_t input = 0, output = 0;  ///< where they begin
};

/// Runs the call on the memory of all ranks. False: it got stuck, which no checked program does.
bool run_sequentially(const Call& call, std::vector<RankMemory>& ranks);

}  // namespace tutti::device::testing
