// How a rank enters a call, and how it learns that its peers have: without a message or a barrier.
//
// Each rank has kEntries entries in the block that its peers on the host map. It enters call k by
// filling entry k mod kEntries and storing k in it last. Who needs something of a peer looks at the
// peer's entry of its own call:
//
//   less than k   the peer is not there yet; look again.
//   k             it is. That both make the same call is the comparison of two hashes; the calls
//                 themselves are compared, and shown, only when those differ.
//   more than k   it did not wait for this rank, so it made other calls.
//
// Beside the hash goes what peers need to begin. With kPublished that is the rank's whole input:
// in the entry's own line, in a note, or in a packet (see layout.hpp), so that one line fetched
// from a peer brings a small input with its call. With kDirect it is where the rank's buffers lie
// (direct_buffers.hpp).
//
// An entry is refilled once all who read it have entered a later call; so a rank that waits for
// nobody runs at most kEntries calls ahead. A look at the peers for that serves for many calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/exec/launch.hpp"
#include "src/exec/layout.hpp"
#include "src/exec/plan.hpp"
#include "src/exec/team.hpp"

namespace tutti::exec {

/// What ranks compare first: differs between different calls but for chance.
std::uint64_t hash_of(const CallSignature& call);

/// Resource; one per team, whose members are all known. Unmapped peers count as having entered
/// every call, since messages say for themselves which call they are of.
class Entries {
 public:
  Entries(Team& team, const Launch& launch);

  /// A call begins: `sequence()` is its number from now on, 1 for the first.
  void begin_call() { published_at_ = PublishedAt(++sequence_); }
  [[nodiscard]] std::uint64_t sequence() const { return sequence_; }

  /// Whether this rank's entry of this call may be filled; else it is blocked on who reads it.
  bool may_enter();
  /// That entry. With kDirect it is up to the caller to fill the payload.
  [[nodiscard]] Entry& own() { return team_.own_block().entries[sequence_ % kEntries]; }
  /// Fills it for `readers` (see Plan::entry_readers()).
  void enter(std::uint64_t readers);

  /// Whether a peer has entered this call, else this rank is blocked on it; an error when it made
  /// another one.
  Result<bool> has_entered(Rank peer);
  /// The first of `places`, from `place` on, whose owner is a peer not seen to have made this call;
  /// their number when there is none.
  std::size_t skip_entered(std::span<const Place> places, std::size_t place);
  /// Where `owner`, which has entered this call, published its input.
  [[nodiscard]] const std::byte* published(Rank owner, Holder holder) const {
    return published_at_.in(*team_.member(owner).block, holder);
  }

 private:
  bool is_unread(std::uint64_t call, std::uint64_t stride);
  [[nodiscard]] bool is_behind(Rank peer, std::uint64_t ranks, std::uint64_t sequence) const;
  bool have_entered(std::uint64_t ranks, std::uint64_t sequence);
  void publish_input();
  void fetch_next(Rank peer) const;
  Error mismatch(Rank peer, const CallSignature& theirs) const;

  Team& team_;
  const Launch& launch_;
  std::uint64_t sequence_ = 0;                  ///< calls begun
  PublishedAt published_at_;                    ///< in this one
  std::uint64_t readers_[kEntries] = {};        ///< of each entry
  std::uint64_t hashes_[kEntries] = {};         ///< of the call in each entry; 0: none yet
  std::uint64_t packet_filled_[kPackets] = {};  ///< by which call; 0: none yet
  std::vector<std::uint64_t> entered_;          ///< per rank: highest call known to be entered
  std::uint64_t entered_by_all_ = 0;  ///< at most the lowest of those, which may have grown since
};

}  // namespace tutti::exec
