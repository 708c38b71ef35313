// How a rank enters a call, and how it learns that its peers have entered: without messages or
// barriers.
//
// Each rank has kEntries entries in the block that its peers on the host map. To enter call k it
// fills entry k mod kEntries and stores k in it last. A rank that needs data from a peer reads the
// peer's entry of its own call number:
//
//   less than k   the peer has not entered yet; check again later.
//   k             it has. Two hashes show whether both make the same call. Only if they differ are
//                 the calls themselves compared, and shown.
//   more than k   it did not wait for this rank, so it made other calls.
//
// Next to the hash is what peers need to begin. With kPublished that is the rank's whole input, in
// the entry's own line, in a note, or in a packet to which it points (see layout.hpp). So fetching
// one line from a peer brings a small input together with its call. With kDirect it is the place of
// the rank's buffers (direct_buffers.hpp).
//
// An entry is refilled once all its readers have entered a later call. So a rank that waits for no
// peer runs at most kEntries calls ahead. One check of the peers serves many calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/exec/launch.hpp"
#include "src/exec/layout.hpp"
#include "src/exec/packet_ring.hpp"
#include "src/exec/plan.hpp"
#include "src/exec/team.hpp"

namespace tutti::exec {

/// What ranks compare first. Different calls have different hashes, except by chance.
std::uint64_t hash_of(const CallSignature& call);

/// Resource. One per team, whose members must all be known. Unmapped peers count as having entered
/// every call, because messages carry their call.
class Entries {
 public:
  Entries(Team& team, const Launch& launch);

  /// Begins a call: `sequence()` is its number from now on, starting from 1.
  void begin_call() { published_at_ = PublishedAt(++sequence_); }
  [[nodiscard]] std::uint64_t sequence() const { return sequence_; }
  /// The last calls that were begun, at most `most` and kEntries. The latest is at the end.
  [[nodiscard]] std::vector<CallSignature> recent(std::size_t most) const;

  /// Whether this rank publishes its input in a packet and has no memory for packets yet.
  [[nodiscard]] bool lacks_packets() const { return launch_.plan().fills_packet() && !packets_; }
  Status make_packets();
  /// Whether this rank, which does not lack packets, may fill its entry of this call. If not, it is
  /// blocked on a reader of the entry, or of a packet.
  bool may_enter();
  /// That entry. With kDirect the caller fills the payload.
  [[nodiscard]] Entry& own() { return team_.own_block().entries[sequence_ % kEntries]; }
  /// Fills the entry for `readers` (see Plan::entry_readers()).
  void enter(std::uint64_t readers);

  /// Whether a peer has entered this call. If not, this rank is blocked on it. An error if the peer
  /// made another call.
  Result<bool> has_entered(Rank peer);
  /// Index of the first of `places`, from `place` on, whose owner is a peer not yet seen in this
  /// call; places.size() if there is none.
  std::size_t skip_entered(std::span<const Place> places, std::size_t place);
  /// Where `owner`, which has entered this call, published its input; null if it claims a packet
  /// outside of its memory.
  [[nodiscard]] const std::byte* published(Rank owner, Holder holder) const {
    if (holder == Holder::kPacket) return packet_of(owner);
    return published_at_.in(*team_.member(owner).block, holder);
  }

 private:
  bool is_unread(std::uint64_t call, std::uint64_t stride);
  [[nodiscard]] bool is_behind(Rank peer, std::uint64_t ranks, std::uint64_t sequence) const;
  bool have_entered(std::uint64_t ranks, std::uint64_t sequence);
  bool has_room_for_packet();
  std::byte* place_for_input(Holder holder, std::size_t bytes);
  void publish_input();
  [[nodiscard]] const std::byte* packet_of(Rank owner) const;
  void fetch_next(Rank peer) const;
  Error mismatch(Rank peer, const CallSignature& theirs) const;

  Team& team_;
  const Launch& launch_;
  std::uint64_t sequence_ = 0;            ///< calls begun
  PublishedAt published_at_;              ///< where inputs are published in this call
  std::uint64_t readers_[kEntries] = {};  ///< readers of each entry
  std::uint64_t hashes_[kEntries] = {};   ///< hash of the call in each entry; 0: none yet
  std::optional<PacketRing> packets_;     ///< once one was needed
  std::byte* packet_memory_ = nullptr;    ///< of the ring
  std::vector<std::uint64_t> entered_;  ///< per rank: highest call that it is known to have entered
  std::uint64_t entered_by_all_ =
      0;  ///< at most the minimum of entered_, which may have grown since
};

}  // namespace tutti::exec
