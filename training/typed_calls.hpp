// Collectives whose element type is known at run time. They replace the templates of tutti::Comm,
// which do not support half floats.
#pragma once

#include <cstddef>
#include <span>

#include "training/numbers.hpp"
#include "tutti/communicator.hpp"
#include "tutti/compression.hpp"
#include "tutti/error.hpp"
#include "tutti/nccl.h"
#include "tutti/status.hpp"
#include "tutti/stream.hpp"
#include "tutti/types.hpp"

namespace tutti::training {

/// whole = the parts of all ranks, in order. Like the others, compressed if that is not null.
inline Status all_gather(Comm& comm, DataType type, std::span<const std::byte> part,
                         std::span<std::byte> whole, const Stream& stream,
                         const Compression* compression = nullptr) {
  const std::size_t count = part.size() / bytes_of(type);
  const auto raw = static_cast<ncclDataType_t>(type);
  const ncclResult_t done =
      compression == nullptr
          ? tuttiNcclAllGather(part.data(), whole.data(), count, raw, comm.native(),
                               stream.native())
          : tuttiAllGatherCompressed(part.data(), whole.data(), count, raw, compression->native(),
                                     comm.native(), stream.native());
  return to_status(done, comm.native());
}

/// part = this rank's part of the sum of all ranks' `whole`; `part` lies in `whole`.
inline Status reduce_scatter(Comm& comm, DataType type, std::span<const std::byte> whole,
                             std::span<std::byte> part, const Stream& stream,
                             const Compression* compression = nullptr) {
  const std::size_t count = part.size() / bytes_of(type);
  const auto raw = static_cast<ncclDataType_t>(type);
  const ncclResult_t done =
      compression == nullptr
          ? tuttiNcclReduceScatter(whole.data(), part.data(), count, raw, ncclSum, comm.native(),
                                   stream.native())
          : tuttiReduceScatterCompressed(whole.data(), part.data(), count, raw, ncclSum, 1, 1,
                                         compression->native(), comm.native(), stream.native());
  return to_status(done, comm.native());
}

/// In place: data = the sum of `data` over all ranks.
inline Status all_reduce(Comm& comm, DataType type, std::span<std::byte> data, const Stream& stream,
                         const Compression* compression = nullptr) {
  const std::size_t count = data.size() / bytes_of(type);
  const auto raw = static_cast<ncclDataType_t>(type);
  const ncclResult_t done =
      compression == nullptr
          ? tuttiNcclAllReduce(data.data(), data.data(), count, raw, ncclSum, comm.native(),
                               stream.native())
          : tuttiAllReduceCompressed(data.data(), data.data(), count, raw, ncclSum, 1, 1,
                                     compression->native(), comm.native(), stream.native());
  return to_status(done, comm.native());
}

}  // namespace tutti::training
