// Grouped sends and receives: each rank has its own list, matched in order for each pair of ranks.
//
// This is not a schedule, because no rank knows the others' lists. The k-th send from a to b
// matches the k-th receive of b from a, whatever else the two do. Transfers of different pairs, and
// both directions of one pair, progress together. Transfers of one pair and direction run one after
// another. Mapped peers exchange data through slots in the sender's heap, others through their
// connection. Sends to oneself are copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/exec/collective.hpp"
#include "src/exec/team.hpp"

namespace tutti::exec {

struct PointToPoint {
  bool sends = false;
  Rank peer = 0;
  std::byte* data = nullptr;  ///< only read when `sends`
  std::size_t bytes = 0;
  CallSignature call;   ///< collective, type, count; root is the peer
  std::string caption;  ///< shown instead of `call` if the two sides do not match; "": never any
  bool for_devices = false;    ///< by kDeviceLanes; the peer is behind a connection
  bool device_memory = false;  ///< `data` is a GPU's
};

/// Resource. Reused from group to group.
class PointToPointRun {
 public:
  explicit PointToPointRun(Team& team);

  /// The k-th send of this rank to itself needs a k-th receive from itself with the same call.
  Status start(std::span<const PointToPoint> transfers);
  /// Its time grows with the number of active pairs and directions and with the data moved, not
  /// with the number of transfers that wait behind them.
  Result<Poll> poll();
  /// To be called between polls now and then. An error if a transfer waits for a rank that has
  /// left.
  Status check_peers();
  void cancel();

  /// A message that this rank waits for: number `number` from 0 that it sends to, or receives from,
  /// `peer`.
  struct Awaited {
    Rank peer = 0;
    bool sends = false;
    std::uint64_t number = 0;
    CallSignature call;
  };
  /// The last unfinished transfer of each peer and direction, but for sends that need no receiver.
  [[nodiscard]] std::vector<Awaited> awaited() const;
  /// How many sends to `peer`, or receives from it, were started.
  [[nodiscard]] std::uint64_t begun(Rank peer, bool sends) const {
    return (sends ? messages_sent_ : messages_received_)[peer];
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Job {
    PointToPoint what;
    std::uint64_t message = 0;  ///< number within (pair, direction)
    std::size_t moved = 0;      ///< bytes
    bool posted = false;        ///< remote
    bool done = false;
    std::unique_ptr<Transfer> transfer;  ///< remote
    std::uint32_t next = kNone;          ///< next job of the same peer and direction
  };

  void queue_up();
  Status copy_to_self();
  Result<bool> sweep();
  Result<bool> advance(Job& job);
  Result<bool> send_mapped(Job& job);
  Result<bool> recv_mapped(Job& job);
  Result<bool> move_remote(Job& job);
  Status open_mail();
  Result<std::byte*> own_slots(Rank peer);
  Result<const std::byte*> peer_slots(Rank peer, std::uint64_t announced);
  Result<std::byte*> peer_mail(Rank peer);
  Error mismatch(const Job& job, const SlotHeader& header, const Caption& caption) const;
  [[nodiscard]] StreamId stream_of(const Job& job) const;

  Team& team_;
  std::vector<Job> jobs_;
  std::vector<std::uint32_t> heads_;  ///< running jobs, one per peer and direction
  std::vector<WaitWord> waits_;       ///< what they wait for, as of the last sweep
  bool moved_ = false;                ///< since the team was last told what to wait for
  std::byte* mail_ = nullptr;         ///< Outbox[size], Inbox[size]
  std::vector<std::byte*> slots_;     ///< per destination
  std::vector<std::byte*> peer_mail_;
  std::vector<std::uint64_t> published_, consumed_;  ///< slices, per peer
  std::vector<std::uint64_t> messages_sent_, messages_received_;
};

}  // namespace tutti::exec
