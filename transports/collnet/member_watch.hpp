// How the members of a group learn that one of them has given up. They would wait in the plugin
// for ever, since a plugin tells nobody.
//
// The first member has a TCP connection with each of the others. Nothing travels there after the
// handshake. A member that gives up, or ends, closes its connections; the first one then gives up
// as well, and so closes all.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "src/wire/crypto.hpp"
#include "src/wire/net.hpp"
#include "tutti/error.hpp"

namespace tutti::collnet {

/// One member's connections. Resource. One thread at a time.
class MemberWatch {
 public:
  MemberWatch() = default;  ///< alone: all are there
  explicit MemberWatch(std::vector<Fd> connections) : connections_(std::move(connections)) {}

  /// Whether some member has given up, or said what nobody asked. Never waits.
  [[nodiscard]] bool is_broken() const;
  void close() { connections_.clear(); }

 private:
  std::vector<Fd> connections_;
};

/// What a group's members share.
struct WatchSecret {
  Key key{};
  std::uint64_t id = 0;
};
/// Of group number `group` of a communicator, whose ranks share `key`.
WatchSecret watch_secret(std::span<const std::byte> key, std::uint64_t communicator,
                         std::uint64_t group);

/// The first member's end. Waits for the `members - 1` others at `listener`; strangers hold nobody
/// up.
Result<MemberWatch> meet_others(int listener, const WatchSecret& secret, std::size_t members,
                                Deadline deadline);
/// The end of the member at `place`.
Result<MemberWatch> meet_first(const SocketAddress& address, const WatchSecret& secret,
                               std::size_t place, Deadline deadline);

}  // namespace tutti::collnet
