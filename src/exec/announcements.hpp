// How ranks find out that they enqueue different calls for their GPUs, whose kernels would wait for
// each other forever or mix up their data.
//
// Each rank writes what it enqueues into its block, call k in place k mod kAnnounced, and looks
// whether its mapped peers wrote something else there as their call k. Of two ranks that differ the
// later one sees it. Nobody waits: of a peer that is kAnnounced calls ahead nothing is known.
#pragma once

#include <cstdint>

#include "src/exec/team.hpp"
#include "src/transport/transport.hpp"
#include "tutti/error.hpp"

namespace tutti::exec {

/// One per team; used by one thread at a time. Value.
class Announcements {
 public:
  explicit Announcements(Team& team) : team_(&team) {}

  /// The next call. kInvalidUsage, which names a peer and both calls, if that made another one.
  Status announce(const CallSignature& call);
  /// Says no more: from here on ranks may count their calls differently.
  void stop() { stopped_ = true; }

 private:
  [[nodiscard]] Status compare(Rank peer, const CallSignature& call) const;

  Team* team_;
  std::uint64_t number_ = 0;  ///< calls announced
  bool stopped_ = false;
};

}  // namespace tutti::exec
