// The buffers of a call that peers load from and store to directly, with ProgramProtocol::kDirect.
//
// Announcing: a rank that enters the call tells where its input and output are: as offsets in the
// heap that its peers map, or elsewhere. Peers copy this once and validate it against their
// mapping. Between threads of one process any address is fine. Those are passed on a board that no
// other process can write (local_board.hpp).
//
// Agreeing: if a program needs all buffers of all ranks mapped, each rank also tells whether its
// own are. All ranks read the same announcements, so all come to the same decision.
//
// Touching: a rank that is about to touch a peer's buffers first marks that, then checks whether
// their owner gave up. A rank that gives up first announces that, then checks for marks. The stores
// and loads are sequentially consistent, so at least one of the two sees the other. So a rank whose
// call failed returns the buffers to its caller only when no peer is in them.
//
// An input that is not mapped is read through the kernel, which copies it out of its owner's
// process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/base/clock.hpp"
#include "src/exec/entries.hpp"
#include "src/exec/launch.hpp"
#include "src/exec/plan.hpp"
#include "src/exec/progress_counters.hpp"
#include "src/exec/team.hpp"

namespace tutti::exec {

/// Resource. One per team, reused from call to call.
class DirectBuffers {
 public:
  DirectBuffers(Team& team, const Launch& launch, Entries& entries, ProgressCounters& progress)
      : team_(team), launch_(launch), entries_(entries), progress_(progress), peers_(team.size()) {}

  /// Writes to this rank's entry where its buffers lie, and whether all ranks map them. With
  /// `declines` it never claims the latter.
  void announce(bool declines);
  /// Whether all ranks map all buffers; empty while a rank that decides this has not entered yet.
  Result<std::optional<bool>> all_mapped();

  /// Looks up where the buffers among `places` lie. Their owners must have entered.
  Status find(std::span<const Place> places);
  /// After find(): the buffer as this rank reaches it; null if not mapped.
  [[nodiscard]] const std::byte* input(Rank owner) const { return peers_[owner].input; }
  [[nodiscard]] std::byte* output(Rank owner) const { return peers_[owner].output; }
  /// Runs a pass on peers' buffers. Overwrites both spans.
  Status run_pass(const Pass& pass, std::span<const std::byte*> sources,
                  std::span<Destination> destinations);

  /// After this rank has left the call: whether no peer touches its buffers any more, so its caller
  /// may have them back.
  Result<bool> are_free();
  /// After an error: returns once no peer touches the buffers, or no peer's write can be seen by
  /// this rank's caller.
  void take_back();

 private:
  struct PeerBuffers {
    std::uint64_t sequence = 0;        ///< of the call that this describes
    std::uint64_t input_address = 0;   ///< in the peer's process
    const std::byte* input = nullptr;  ///< null: not mapped
    std::byte* output = nullptr;
    bool mapped_by_all = false;
  };
  Status find(Rank peer);
  Status read_input(const Place& source, std::byte* to, const Pass& pass);
  Status check_owners(const Pass& pass) const;
  [[nodiscard]] bool was_stopped_inside(const Member& peer, Deadline deadline) const;

  Team& team_;
  const Launch& launch_;
  Entries& entries_;
  ProgressCounters& progress_;
  bool mapped_by_all_ = false;  ///< whether all ranks map this rank's buffers
  std::vector<PeerBuffers> peers_;
};

}  // namespace tutti::exec
