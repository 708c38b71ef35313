// How much a rank sends in a call, for counters.
#pragma once

#include <cstddef>
#include <cstdint>

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
/// `format`: see Plan::bind().
SentBytes sent_bytes(const lower::Lowered& lowered, const ChunkPlaces& chunks, Rank rank,
                     std::size_t element_bytes, const codec::Format* format);

}  // namespace tutti::exec
