// Connects two processes over listening stream sockets. The one with the lower token dials, the
// other accepts, and both prove that they hold the key.
//
// There is no thread: a caller that waits in connect() also serves every other process that
// connects meanwhile. So both sides may call in any order, for several groups at once. Sockets that
// have not proved the key are few: the oldest is dropped for a new one. Each costs one descriptor,
// and none makes anyone wait.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "src/transport/transport.hpp"
#include "src/wire/crypto.hpp"
#include "src/wire/handshake.hpp"

namespace tutti {

/// An authenticated connection to another process.
struct PeerSocket {
  Fd fd;                           ///< non-blocking
  std::shared_ptr<void> greeting;  ///< what Hooks::greet returned
};

/// The sockets of one connection, in the same order on both sides, all authenticated.
using PeerSockets = std::vector<PeerSocket>;
inline constexpr std::size_t kMaxSockets = 16;

/// Resource. Thread-safe.
class PeerListener {
 public:
  /// What differs between kinds of sockets.
  struct Hooks {
    /// Accepts one waiting connection, non-blocking; an empty Fd when none waits.
    std::function<Result<Fd>(int listener)> accept;
    /// Makes socket number `part` of a connection: connects to a listener of the process at
    /// `address`, non-blocking.
    std::function<Result<Fd>(std::span<const std::byte> address, std::uint8_t part, Deadline)> dial;
    /// Called once for each socket that proved the key, before any other byte is sent on it. Must
    /// not wait.
    std::function<Result<std::shared_ptr<void>>(int fd)> greet;
    /// Makes the Connection.
    std::function<Result<std::shared_ptr<Connection>>(const PeerProcess&, PeerSockets, Deadline)>
        make;
  };

  /// `self` is this process's token; `what` ("tcp") is for error messages. `sockets` is the number
  /// of sockets per connection that this side dials, at most kMaxSockets. When the peer dials, the
  /// peer's number counts.
  PeerListener(std::vector<Fd> listeners, std::uint64_t self, std::string what, Hooks hooks,
               std::size_t sockets = 1);
  PeerListener(Fd listener, std::uint64_t self, std::string what, Hooks hooks,
               std::size_t sockets = 1);
  ~PeerListener();

  /// Transport::connect.
  Result<std::shared_ptr<Connection>> connect(const PeerProcess& peer,
                                              std::span<const std::byte> key, Deadline deadline);

 private:
  struct Visitor {
    Fd fd;
    std::unique_ptr<Handshake> handshake;
    TimePoint until;
  };
  /// Which socket of a connection this is.
  struct Part {
    std::uint64_t attempt;  // the dialler's attempt to make the connection; random
    std::uint8_t index;
  };
  /// The sockets that a dialler has made so far. Those still missing have no fd.
  struct Arrival {
    std::uint64_t attempt = 0;
    PeerSockets sockets;
  };
  class Admission;
  /// This process in a group, while it connects to members of that group.
  struct Membership {
    Key key;
    std::uint64_t group;
    int uses;
  };

  Result<PeerSockets> meet(const PeerProcess& peer, const Key& key, Deadline deadline);
  Result<PeerSockets> dial(const PeerProcess& peer, const Key& key, Deadline deadline);
  Result<PeerSocket> dial_part(const Part& part, const PeerProcess& peer, const Key& key,
                               Deadline deadline);
  Result<PeerSocket> introduce(Fd fd, const Part& part, const PeerProcess& peer, const Key& key,
                               Deadline deadline);
  Result<PeerSockets> await(const PeerProcess& peer, Deadline deadline);
  void admit(const Identity& peer, PeerSocket socket);
  Error late(const PeerProcess& peer) const;
  void tidy();
  void serve();
  void let_in();
  void let_in(int listener);
  bool attend(Visitor& visitor);
  void choose_key(Handshake& handshake);
  void wait_for_news(int fd, short events, Deadline deadline);

  const std::vector<Fd> listeners_;
  const std::uint64_t self_;
  const std::string what_;
  const Hooks hooks_;
  const std::size_t sockets_;

  std::mutex mutex_;
  std::vector<Membership> memberships_;
  std::list<Visitor> visitors_;                                     // oldest first
  std::optional<Error> cannot_accept_;                              // why the last accept failed
  std::map<std::uint64_t, Arrival> met_;                            // by token
  std::map<std::uint64_t, std::weak_ptr<Connection>> connections_;  // by token
  std::set<std::uint64_t> connecting_;
  std::condition_variable connected_;
};

}  // namespace tutti
