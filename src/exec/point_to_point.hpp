// Grouped sends and receives: each rank's own list, matched pair by pair in order.
//
// No rank knows the others' lists, so this is not a schedule: the k-th send from a to b meets the
// k-th receive of b from a, whatever else the two do. Transfers of different pairs, and the two
// directions of one pair, progress together; those of one pair and direction one after another.
// Mapped peers exchange through slots in the sender's heap; others through their connection; sends
// to oneself are copied.
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
  std::string caption;  ///< shown in place of `call` when the two sides do not fit; "": none, ever
};

/// Resource; reused from group to group.
class PointToPointRun {
 public:
  explicit PointToPointRun(Team& team);

  /// The k-th send to this rank itself must have a k-th receive from itself with the same call.
  Status start(std::span<const PointToPoint> transfers);
  /// Takes time in proportion to the pairs and directions that are under way and to what it moves,
  /// however many transfers stand behind them.
  Result<Poll> poll();
  /// Between polls, now and then: an error when a transfer waits for a rank that has left.
  Status check_peers();
  void cancel();

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Job {
    PointToPoint what;
    std::uint64_t message = 0;  ///< number within (pair, direction)
    std::size_t moved = 0;      ///< bytes
    bool posted = false;        ///< remote
    bool done = false;
    std::unique_ptr<Transfer> transfer;  ///< remote
    std::uint32_t next = kNone;          ///< job of the same peer and direction
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
  std::vector<std::uint32_t> heads_;  ///< jobs under way, one for each peer and direction
  std::vector<WaitWord> waits_;       ///< what they wait for, as the last sweep found it
  bool moved_ = false;                ///< since the team was last told what to wait for
  std::byte* mail_ = nullptr;         ///< Outbox[size], Inbox[size]
  std::vector<std::byte*> slots_;     ///< per destination
  std::vector<std::byte*> peer_mail_;
  std::vector<std::uint64_t> published_, consumed_;  ///< slices, per peer
  std::vector<std::uint64_t> messages_sent_, messages_received_;
};

}  // namespace tutti::exec
