// Collectives whose element type is known at run time. They replace the templates of tutti::Comm,
// which do not support half floats.
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

/// part = this rank's part of the sum of all ranks' `whole`; `part` lies in `whole`.
inline Status reduce_scatter(Comm& comm, DataType type, std::span<const std::byte> whole,
                             std::span<std::byte> part, const Stream& stream) {
  return to_status(tuttiNcclReduceScatter(whole.data(), part.data(), part.size() / bytes_of(type),
                                          static_cast<ncclDataType_t>(type), ncclSum, comm.native(),
                                          stream.native()),
                   comm.native());
}

/// In place: data = the sum of `data` over all ranks.
inline Status all_reduce(Comm& comm, DataType type, std::span<std::byte> data,
                         const Stream& stream) {
  return to_status(tuttiNcclAllReduce(data.data(), data.data(), data.size() / bytes_of(type),
                                      static_cast<ncclDataType_t>(type), ncclSum, comm.native(),
                                      stream.native()),
                   comm.native());
}

}  // namespace tutti::training
