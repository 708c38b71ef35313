// Which ranks of a communicator make up a new one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/base/clock.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/comm/call_queue.hpp"
#include "src/comm/group_facts.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// Ranks that make a communicator of their own.
struct Subgroup {
  std::vector<Rank> ranks;               ///< rank i of the new one is ranks[i] here
  std::unique_ptr<Bootstrap> bootstrap;  ///< null: this rank is in none
};

/// One per communicator; used by its thread. GroupMember says what split() and shrink() promise.
/// Resource.
class Membership {
 public:
  /// All of these outlive this.
  Membership(Bootstrap& bootstrap, const GroupFacts& facts, const CallQueue& calls)
      : bootstrap_(bootstrap), facts_(facts), calls_(calls) {}
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  Result<Subgroup> split(int color, int key, Deadline deadline);
  Result<Subgroup> shrink(std::span<const Rank> exclude, Deadline deadline);
  /// `error` of a communicator of `ranks`, for those who know the ranks by their numbers here.
  [[nodiscard]] Error seen_from_here(Error error, std::span<const Rank> ranks) const;

 private:
  Result<std::vector<Rank>> ranks_of(int color, int key, Deadline deadline);
  Result<Subgroup> meet(std::vector<Rank> ranks, std::uint64_t tag, Deadline deadline);

  Bootstrap& bootstrap_;
  const GroupFacts& facts_;
  const CallQueue& calls_;
  // Counted apart: a split may fail on some ranks alone, and the shrink after it must still agree.
  std::uint64_t splits_ = 0, shrinks_ = 0;
};

}  // namespace tutti
