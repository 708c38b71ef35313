// How much a rank sends in a call, for counters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "src/codec/format.hpp"
#include "src/exec/chunk_places.hpp"
#include "src/lower/program.hpp"

namespace tutti::exec {

/// Payload. Value.
struct SentBytes {
  std::uint64_t all = 0;
  std::uint64_t to_other_hosts = 0;  ///< part of `all`
};

/// What `rank` sends by the schedule that `lowered` was made from; 0 if that is not known.
/// `formats` are the program's.
SentBytes sent_bytes(const lower::Lowered& lowered, const ChunkPlaces& chunks, Rank rank,
                     std::size_t element_bytes,
                     std::span<const std::shared_ptr<const codec::Format>> formats);

}  // namespace tutti::exec
