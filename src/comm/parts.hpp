// Cuts a call on buffers that the host cannot load from into parts that are staged in host memory.
//
// Words:
//   slot   host memory that one step passes through: first the inputs lie in it, then the results.
//   part   the same elements of every block of a call; itself a call, of fewer elements.
//   step   parts that are in a slot at once; it has nothing to do with the steps of a schedule.
//
// All ranks cut a call into the same parts, whatever else they call in the same group. The size of
// a part follows from the call, the number of ranks and the slot's size alone. The same collectives
// also make the same steps on all ranks, though roots have more data than others. Sends and
// receives are not cut: neither of two ranks that exchange messages knows what else the other one
// waits for, so all messages of a group have to be under way at once.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "src/comm/call.hpp"
#include "src/exec/cuda/copy_range.hpp"
#include "tutti/types.hpp"

namespace tutti {

using exec::cuda::CopyRange;

/// Value.
struct Part {
  Call call;  ///< its buffers are null; they lie at these places of the slot
  std::size_t send_offset = 0, recv_offset = 0;
  bool sends = false, receives = false;  ///< whether this rank uses them
  std::size_t scalar_offset = 0;         ///< of call.device_scalar, where there is one
  friend bool operator==(const Part&, const Part&) = default;
};

/// Value.
struct StagingStep {
  std::vector<Part> parts;
  std::vector<CopyRange> in, out;
  std::size_t bytes = 0;  ///< of the slot
};

/// The steps of the calls of one group, in order: collectives as they come, then all messages.
/// `slot_bytes` bounds the steps of collectives, unless a single element of each block needs more;
/// the messages are one step of any size. The calls must be valid.
std::vector<StagingStep> cut(std::span<const Call> calls, Rank rank, std::int32_t size,
                             std::size_t slot_bytes);

}  // namespace tutti
