// Communicators of some of the ranks of another one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "src/base/clock.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/comm/call_queue.hpp"
#include "src/comm/group_facts.hpp"
#include "src/comm/group_member.hpp"
#include "src/comm/runtime.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// One per communicator; used by its thread. GroupMember says what split() and shrink() promise.
/// Resource.
class Membership {
 public:
  /// All of these outlive this.
  Membership(const std::shared_ptr<Runtime>& runtime, Bootstrap& bootstrap, const GroupFacts& facts,
             const CallQueue& calls)
      : runtime_(runtime), bootstrap_(bootstrap), facts_(facts), calls_(calls) {}
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  Result<std::unique_ptr<Communicator>> split(int color, int key,
                                              const CommunicatorOptions& options,
                                              Deadline deadline);
  Result<std::unique_ptr<Communicator>> shrink(std::span<const Rank> exclude,
                                               const CommunicatorOptions& options,
                                               Deadline deadline);

 private:
  Result<std::vector<Rank>> ranks_of(int color, int key, Deadline deadline);
  Result<std::unique_ptr<Communicator>> make(std::span<const Rank> ranks, std::uint64_t tag,
                                             const CommunicatorOptions& options, Deadline deadline);

  const std::shared_ptr<Runtime>& runtime_;
  Bootstrap& bootstrap_;
  const GroupFacts& facts_;
  const CallQueue& calls_;
  // Counted apart: a split may fail on some ranks alone, and the shrink after it must still agree.
  std::uint64_t splits_ = 0, shrinks_ = 0;
};

}  // namespace tutti
