// Cuts a call on buffers that the host cannot load from into parts that are staged in host memory.
//
// Words:
//   slot   host memory that one step passes through: first the inputs lie in it, then the results.
//   part   the same elements of every block of a call; itself a call, of fewer elements.
//   step   parts that are in a slot at once; it has nothing to do with the steps of a schedule.
//
// Calls with for_devices may leave buffers where they are: NICs read and write them there. Then
// nothing passes through the slot for them. Each rank does so by itself, since its peers' messages
// are the same either way. Collectives of that kind run in place, in the buffer that receives.
//
// All ranks cut a call into the same parts, whatever else they call in the same group. The size of
// a part follows from the call, the number of ranks and the slot's size alone. The same collectives
// also make the same steps on all ranks, though roots have more data than others. Sends and
// receives are not cut: neither of two ranks that exchange messages knows what else the other one
// waits for, so all messages of a group have to be under way at once.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "src/comm/call.hpp"
#include "src/exec/cuda/copy_range.hpp"
#include "tutti/types.hpp"

namespace tutti {

using exec::cuda::CopyRange;
using exec::cuda::DeviceCopy;

/// Value.
struct Part {
  Call call;  ///< buffers that are null lie at these places of the slot
  std::size_t send_offset = 0, recv_offset = 0;
  bool sends = false, receives = false;  ///< whether this rank uses them
  std::size_t scalar_offset = 0;         ///< of call.device_scalar, where there is one
  friend bool operator==(const Part&, const Part&) = default;
};

/// Value.
struct StagingStep {
  std::vector<Part> parts;
  std::vector<CopyRange> in, out;
  std::vector<DeviceCopy> moves;  ///< of inputs to where they have to be in place
  std::size_t bytes = 0;          ///< of the slot
};

/// Whether the buffer of a call with for_devices is used where it is: that of a message, or the one
/// that a collective receives in.
using Stays = std::function<bool(const Call&)>;

/// The steps of the calls of one group, in order: collectives as they come, then all messages.
/// `slot_bytes` bounds the steps of collectives, unless a single element of each block needs more;
/// the messages are one step of any size. The calls must be valid.
std::vector<StagingStep> cut(std::span<const Call> calls, Rank rank, std::int32_t size,
                             std::size_t slot_bytes, const Stays& stays = {});

}  // namespace tutti
