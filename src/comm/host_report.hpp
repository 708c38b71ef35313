// The first rank of each host tells the others the host's topology, or why it does not know it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/base/blob.hpp"
#include "src/topo/model/topology.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// Most bytes of a report in a job of so many ranks. Every rank receives the reports of all hosts.
constexpr std::size_t most_report_bytes(std::int32_t ranks) {
  constexpr std::size_t kMostOfAll = std::size_t{16} << 20U, kMost = std::size_t{1} << 16U;
  constexpr std::size_t kLeast = 1024;  // room for a host of which nothing is known
  const std::size_t share = kMostOfAll / static_cast<std::size_t>(ranks);
  return share > kMost ? kMost : share < kLeast ? kLeast : share;
}

/// In at most `most` bytes, 1024 or more. A larger topology loses the attributes that topo::fuse()
/// does not read. If that is not enough it becomes topo::unknown_host(), and an assumption says so.
/// Assumptions and the text of an error are cut to what fits.
Blob encode_host_report(const Result<topo::Noted>& host, std::size_t most);

/// What the report says. If it says an error, that names `rank`. Accepts any bytes: a report that
/// is malformed, has more than `most` bytes or describes no host (topo::check_host()) is
/// kPeerFailed.
Result<topo::Noted> decode_host_report(std::span<const std::byte> bytes, std::size_t most,
                                       Rank rank);

}  // namespace tutti
