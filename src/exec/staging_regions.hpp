// The shared memory that a rank's slots lie in during staged calls, and where its peers' slots lie.
//
// The slots of a call fill a part of a region. If few ranks share a CPU, calls take one part
// after the other, for the reason that packet_ring.hpp gives. All ranks make the same calls, and
// their slots take as many bytes, so each knows which part the others fill.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "src/exec/member.hpp"
#include "src/exec/staging_pool.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::exec {

/// Of one team, used by its thread. Even and odd calls have a region each. Resource.
class StagingRegions {
 public:
  /// Of `rank`, one of `members`. `bytes`: of one region. `members` and `pool` outlive this.
  StagingRegions(const std::vector<Member>& members, Rank rank, StagingPool& pool,
                 std::uint64_t communicator, std::size_t bytes);
  StagingRegions(const StagingRegions&) = delete;
  StagingRegions& operator=(const StagingRegions&) = delete;

  /// Once all members are known: the mapped ones read this rank's slots.
  void set_readers();
  /// Whether calls take one part of a region after the other.
  void set_takes_turns(bool turns) { takes_turns_ = turns; }
  /// Begins `call` (see ProgressCounters::calls()), which is staged. The slots of each rank take
  /// `used` bytes, at most those of a region.
  void begin(std::uint64_t call, std::size_t used);
  /// The memory for this rank's slots in the call begun. It lies `lead` bytes behind a cache line
  /// and is announced to the peers, which have all left the call before last.
  Result<std::byte*> enter(std::size_t lead);
  /// This rank is done with the region that it entered, if any. Rank r is done with it once its
  /// progress reaches `left_at[r]`.
  void leave(std::span<const std::uint64_t> left_at) {
    if (entered_ != nullptr) std::exchange(entered_, nullptr)->leave(left_at);
  }
  /// The slots of mapped peer `rank` in the call begun, in which it has made progress.
  Result<std::byte*> of_peer(Rank rank);
  /// There are no more calls.
  void close();

 private:
  struct PeerRegion {
    std::uint64_t call = 0;  ///< 1 + the one in which it was looked up; 0: none
    std::uint64_t announced[2] = {};
    std::byte* region[2] = {};
  };

  const std::vector<Member>& members_;
  const Rank rank_;
  const std::size_t bytes_;
  StagingPool::Lease leases_[2];           ///< for even and odd calls
  StagingPool::Lease* entered_ = nullptr;  ///< of those, in the call that runs
  std::byte* announced_[2] = {};           ///< where peers know the regions to be, with the lead
  bool takes_turns_ = false;
  std::uint64_t call_ = 0;    ///< the one begun
  std::size_t part_ = 0;      ///< where its part begins in the regions
  std::size_t next_[2] = {};  ///< where the part of the next even or odd call may begin
  std::vector<PeerRegion> peers_;
};

}  // namespace tutti::exec
