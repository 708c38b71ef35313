// What ranks tell each other while they make groups of a CollNet plugin, by the control plane's
// all-gather. Each message begins with the reason why its sender cannot go on, or none.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/blob.hpp"
#include "src/plugin/handle.hpp"
#include "src/transport/tree_abilities.hpp"
#include "src/wire/net.hpp"
#include "tutti/error.hpp"

namespace tutti::collnet {

/// More groups than this, or longer texts, are no message.
inline constexpr std::size_t kMostSeats = 64;
inline constexpr std::size_t kLongestText = 400;

/// Where a rank waits in one of its groups.
struct Seat {
  plugin::Handle handle{};  ///< of the plugin's listener
  SocketAddress watch{};    ///< of the first member; others have none
  friend bool operator==(const Seat&, const Seat&) = default;
};

/// First message.
struct Arrival {
  std::string refusal{};
  std::string plugin{};       ///< its name: all have to use one
  std::vector<Seat> seats{};  ///< one for each group with this rank, in their order
  friend bool operator==(const Arrival&, const Arrival&) = default;
};
Blob encode(const Arrival& arrival);
Result<Arrival> decode_arrival(std::span<const std::byte> bytes);

/// Last message: what a rank's groups can do.
struct Terms {
  std::string refusal{};
  TreeAbilities abilities{};
  std::uint64_t most_bytes = 0;  ///< of one operation
  bool scatters = false;
  friend bool operator==(const Terms&, const Terms&) = default;
};
Blob encode(const Terms& terms);
Result<Terms> decode_terms(std::span<const std::byte> bytes);

}  // namespace tutti::collnet
