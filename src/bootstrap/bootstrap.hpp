// The control plane of a group of ranks: small, slow, reliable, authenticated, deadline-bound.
//
// It has one primitive, all_gather of blobs; barrier and broadcast derive from it. It also watches
// over the ranks. It notices the death of a process at once, because its connection ends without a
// goodbye. It notices a stopped or unreachable process after the liveness limit, because heartbeats
// are missing. It tells all ranks of both.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "src/base/blob.hpp"
#include "src/base/clock.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

struct WaitingCall;

class Bootstrap {
 public:
  /// Leaves the group: says goodbye, so that peers see an end, not a crash.
  virtual ~Bootstrap() = default;

  virtual Rank rank() const = 0;
  virtual std::int32_t size() const = 0;

  /// 32 secret bytes that all ranks of this job share.
  virtual std::span<const std::byte> key() const = 0;

  /// Collective over all ranks of this group, calls in the same order everywhere. Element r of the
  /// result is rank r's blob. On timeout the error names the ranks that never came.
  virtual Result<std::vector<Blob>> all_gather(Blob mine, Deadline deadline) = 0;
  /// Whether the last all_gather is known to have failed on every rank: none has or will get its
  /// result. False when it succeeded, or when this cannot be known.
  [[nodiscard]] virtual bool failed_for_all() const { return false; }

  /// A group of some ranks of this one. Called by exactly the members, with the same list
  /// (ascending order is not required: members[i] becomes rank i) and the same `tag`, which tells
  /// concurrent or repeated calls apart. Works while any other rank, rank 0 included, is dead; the
  /// death of a member ends it soon after it is known, in an error that names its rank here.
  virtual Result<std::unique_ptr<Bootstrap>> subgroup(std::span<const Rank> members,
                                                      std::uint64_t tag, Deadline deadline) = 0;

  /// `handler` is called from the service thread for each failure that this rank learns of: the
  /// death or silence of a member (error.peer, a rank of this group) or a peer's abort notice.
  /// Failures known already are delivered at once. One handler; nullptr removes it and returns only
  /// when no call is under way.
  virtual void on_failure(std::function<void(const Error&)> handler) = 0;

  /// Tells every member that this rank gave up, and why. Never blocks.
  virtual void announce(const Error& error) = 0;

  /// To be called now and then by a rank that waits for `peer`. Does nothing while the group's hub
  /// watches over it. After the hub has left with a goodbye, asks that peer whether it lives and
  /// what it knows to have failed; the answer arrives as a failure. Never blocks.
  virtual void look_after(Rank /*peer*/) {}
  /// Whether somebody watches over the ranks, so that the death of any of them is told of soon.
  virtual bool tells_of_deaths() const { return true; }

  /// A rank that has been in a call for a while tells what it waits in. It holds until the next, or
  /// until withdraw_wait(), which must come before that call returns. Where ranks wait for each
  /// other in different calls, all learn of it as a failure, kInvalidUsage (standstill.hpp), as
  /// long as the group has a hub. Never blocks.
  virtual void tell_wait(const WaitingCall& /*call*/) {}
  virtual void withdraw_wait() {}
};

/// Returns once every rank has called it.
Status barrier(Bootstrap& bootstrap, Deadline deadline);
/// Every rank receives root's blob; `mine` is used on root alone.
Result<Blob> broadcast(Bootstrap& bootstrap, Blob mine, Rank root, Deadline deadline);

}  // namespace tutti
