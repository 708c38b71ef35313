// What the first rank of a host tells the others of it: its topology, or why it cannot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/base/blob.hpp"
#include "src/topo/model/topology.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// Most bytes of a report in a job of so many ranks: what all hosts tell reaches every rank.
constexpr std::size_t most_report_bytes(std::int32_t ranks) {
  constexpr std::size_t kMostOfAll = std::size_t{16} << 20U, kMost = std::size_t{1} << 16U;
  constexpr std::size_t kLeast = 1024;  // room for a host of which nothing is known
  const std::size_t share = kMostOfAll / static_cast<std::size_t>(ranks);
  return share > kMost ? kMost : share < kLeast ? kLeast : share;
}

/// In at most `most` bytes, 1024 or more. A topology that is larger loses the attributes that
/// topo::fuse() does not read, and if that is not enough becomes topo::unknown_host(): that is
/// one more assumption of it. Of assumptions and of an error's text what does not fit is cut.
Blob encode_host_report(const Result<topo::Noted>& host, std::size_t most);

/// What the report says, an error too, which then names `rank`. Hostile-safe: a malformed one, or
/// one of more than `most` bytes, or that describes no host (topo::check_host()) is kPeerFailed.
Result<topo::Noted> decode_host_report(std::span<const std::byte> bytes, std::size_t most,
                                       Rank rank);

}  // namespace tutti
