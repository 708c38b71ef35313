// Collectives over elements of a type that is known at run time. As those of tutti::Comm, whose
// templates know no half floats.
#pragma once

#include <cstddef>
#include <span>

#include "training/numbers.hpp"
#include "tutti/communicator.hpp"
#include "tutti/error.hpp"
#include "tutti/nccl.h"
#include "tutti/status.hpp"
#include "tutti/stream.hpp"
#include "tutti/types.hpp"

namespace tutti::training {

/// whole = the parts of all ranks, in order.
inline Status all_gather(Comm& comm, DataType type, std::span<const std::byte> part,
                         std::span<std::byte> whole, const Stream& stream) {
  return to_status(
      tuttiNcclAllGather(part.data(), whole.data(), part.size() / bytes_of(type),
                         static_cast<ncclDataType_t>(type), comm.native(), stream.native()),
      comm.native());
}

/// part = this rank's part of the sum over all ranks' `whole`, of which it is one.
inline Status reduce_scatter(Comm& comm, DataType type, std::span<const std::byte> whole,
                             std::span<std::byte> part, const Stream& stream) {
  return to_status(tuttiNcclReduceScatter(whole.data(), part.data(), part.size() / bytes_of(type),
                                          static_cast<ncclDataType_t>(type), ncclSum, comm.native(),
                                          stream.native()),
                   comm.native());
}

/// In place: data = its sum over all ranks.
inline Status all_reduce(Comm& comm, DataType type, std::span<std::byte> data,
                         const Stream& stream) {
  return to_status(tuttiNcclAllReduce(data.data(), data.data(), data.size() / bytes_of(type),
                                      static_cast<ncclDataType_t>(type), ncclSum, comm.native(),
                                      stream.native()),
                   comm.native());
}

}  // namespace tutti::training
