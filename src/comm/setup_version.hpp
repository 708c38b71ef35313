// The version of what ranks tell each other while they make a communicator.
#pragma once

#include <cstdint>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// First word of JobSettings and of PeerInfo. Counts up whenever the layout of either changes.
inline constexpr std::uint32_t kSetupVersion = 16;

/// Reads that word. kInvalidUsage, which names `rank` and both versions, where it differs: the
/// ranks run different libraries.
inline Status check_setup_version(ByteReader& reader, Rank rank) {
  const auto version = reader.get<std::uint32_t>();
  if (reader.ok() && version == kSetupVersion) return ok_status();
  return peer_error(Code::kInvalidUsage, rank,
                    "rank {} runs another version of Tutti (set-up version {}, here {}): all ranks "
                    "must use the same library",
                    rank, version, kSetupVersion);
}

}  // namespace tutti
