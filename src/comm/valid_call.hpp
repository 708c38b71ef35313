// Which calls are valid on a communicator. The C API and the communicator ask the same functions.
//
// Every error is kInvalidArgument unless said otherwise, and names the value and what it may be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/comm/call.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// `root` is a root or a peer; other collectives have none.
Status check_root(Collective collective, Rank root, std::int32_t size);
/// `type` is one of NCCL's numbers.
Status check_type(int type);
/// The larger buffer, `size` blocks of call.count elements, can be addressed. The type is valid.
Status check_size(const Call& call, std::int32_t size);
/// The buffers that this rank uses are not null, unless they have no elements.
Status check_pointers(const Call& call, Rank rank);
/// One buffer, all blocks of which have `elements`.
Status check_blocks_pointer(const char* name, const void* buffer, std::size_t elements);

/// A compression, if the call has one, can serve it.
Status check_compression(const Call& call, std::int32_t size);

/// All of these in this order, and that blocks fit the collective and its number of ranks.
Status check_call(const Call& call, Rank rank, std::int32_t size);

/// What a group as a whole may ask of `rank`: the k-th send to itself needs a k-th receive from
/// itself of the same type and count. kInvalidUsage otherwise.
Status check_group(std::span<const Call> calls, Rank rank);

}  // namespace tutti
