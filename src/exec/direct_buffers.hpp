// Buffers of a call that peers load from and store to where they lie, with Protocol::kDirect.
//
// Announcing: a rank enters the call by saying where its input and its output are, as offsets in
// the heap that its peers map, or that they are elsewhere. Peers take a copy once and validate it
// against their mapping. Among threads of one process any address will do; those are told on a
// board that no other process can write (local_board.hpp).
//
// Agreeing: where some program needs all buffers of all ranks mapped, each rank also says whether
// its own are. All look at the same announcements, so all come to the same decision.
//
// Touching: who is about to touch a peer's buffers marks that it is, then looks whether their owner
// gave up; who gives up says so, then looks whether anybody is marked. Both orders are those of
// sequentially consistent stores and loads, so that one of the two sees the other. A rank whose
// call failed therefore gives its caller the buffers back only when no peer is in them.
//
// An input that is not mapped is read through the kernel: a copy out of its owner's process.
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

/// Resource; one per team, reused from call to call.
class DirectBuffers {
 public:
  DirectBuffers(Team& team, const Launch& launch, Entries& entries, ProgressCounters& progress)
      : team_(team), launch_(launch), entries_(entries), progress_(progress), peers_(team.size()) {}

  /// Writes to this rank's entry where its buffers lie, and unless it `declines`, that all ranks
  /// map them, where they do.
  void announce(bool declines);
  /// Whether all ranks map all buffers; nothing while that depends on a rank that is not there yet.
  Result<std::optional<bool>> all_mapped();

  /// Learns where the buffers among `places` lie, whose owners have entered.
  Status find(std::span<const Place> places);
  /// Then: as this rank reaches them; null: not mapped.
  [[nodiscard]] const std::byte* input(Rank owner) const { return peers_[owner].input; }
  [[nodiscard]] std::byte* output(Rank owner) const { return peers_[owner].output; }
  /// Runs a pass among buffers of peers. Both spans are used up.
  Status run_pass(const Pass& pass, std::span<const std::byte*> sources,
                  std::span<Destination> destinations);

  /// After this rank has left the call: whether nobody touches its buffers any more, so that its
  /// caller may have them back.
  Result<bool> are_free();
  /// After an error: returns when no peer touches them any more, or writes that this rank's caller
  /// would see.
  void take_back();

 private:
  struct PeerBuffers {
    std::uint64_t sequence = 0;        ///< of the call that this is about
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
  bool mapped_by_all_ = false;  ///< this rank's buffers
  std::vector<PeerBuffers> peers_;
};

}  // namespace tutti::exec
