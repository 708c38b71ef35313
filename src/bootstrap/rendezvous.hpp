// The rendezvous over TCP: a star around a hub, every connection authenticated.
//
// serve_root() makes a unique id and opens the hub of its group in this process. Each rank then
// joins with the id: it connects to the hub, proves that it holds the id's key, and waits until all
// ranks have. The process that made the id must live as long as the group; usually it is a rank.
// An id serves one group, once.
//
// Liveness: heartbeats go both ways every second. If a connection ends without a goodbye, that
// process has died, and the hub tells all members at once. Silence beyond the liveness limit means
// a stopped or unreachable process, which the hub tells likewise. Every member notices the loss of
// the hub and blames the ranks of the hub's process. Deaths after that are not noticed here until a
// subgroup is formed. After the hub's process has left with a goodbye, each rank asks the one that
// it waits for (PulseCheck), and so learns what has failed.
//
// Every process of a group listens too (one port for all its groups and ranks), on the interface
// that reaches the hub: subgroup() makes the first member the hub of a star of its own, so it needs
// nobody but its members. While a subgroup forms, the death of a member ends the attempt for all:
// the hub of this group tells of it. If that hub is gone, the first member connects to the
// listeners of those that have not come, and so finds out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "src/base/clock.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/bootstrap/lobby.hpp"
#include "src/bootstrap/unique_id.hpp"
#include "src/wire/net.hpp"
#include "src/wire/service.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct RootOptions {
  InterfaceChoice interfaces;
  std::optional<SocketAddress> address;  ///< exactly here instead; port 0: any
  std::optional<Key> key;                ///< of the job; default: a fresh one
  bool stays = false;  ///< keeps listening, for later hubs at the same address and port
  Nanos liveness = std::chrono::seconds(15);
  Lobby::Limits limits{};
};

struct JoinOptions {
  InterfaceChoice interfaces;  ///< default: the interface that reaches the hub
  Nanos liveness = std::chrono::seconds(15);
  Lobby::Limits limits{};
  /// The hub may open later, though its process listens already: a refused connection is retried.
  bool awaited = false;
  /// The hub listened when the id was made: where its host refuses connections, it is gone.
  bool was_up = false;
  /// Ranks that are late are waited for as long as the hub lives. The deadline bounds only how long
  /// it takes to reach the hub.
  bool patient = false;
  /// All ranks must join with the same: a digest of what else they were given. A rank that shows
  /// another one ends the rendezvous with an error for all.
  Digest given{};
};

/// Opens a hub and returns the id that leads to it. The hub ends when its group was complete and
/// all ranks have left, or with the service.
Result<UniqueId> serve_root(const std::shared_ptr<Service>& service, const RootOptions& options);

/// The id of a job whose key and hub address are known by other means (tcp://host:port).
UniqueId unique_id_of(const Key& key, const SocketAddress& hub);

/// Joins the group of `id` as `rank` of `size`; returns when all ranks have joined. Any thread;
/// many ranks of one process may join at once. Errors: kTimeout names the ranks that never came;
/// kInvalidArgument and kInvalidUsage when the ranks disagree (two claim one rank, sizes differ,
/// the id has served already) name both sides; kPeerFailed for another job's id or a hub that is
/// gone.
Result<std::unique_ptr<Bootstrap>> join(const std::shared_ptr<Service>& service, const UniqueId& id,
                                        Rank rank, std::int32_t size, const JoinOptions& options,
                                        Deadline deadline);

}  // namespace tutti
