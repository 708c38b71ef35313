// Detects that ranks enqueue different calls for their GPUs. Without this, their kernels would wait
// for each other forever or mix up data.
//
// Each rank writes the calls that it enqueues into its block, call k at index k mod kAnnounced.
// Then it checks whether its mapped peers wrote something else as their call k. Of two ranks that
// differ, the later one notices. No rank waits: a peer that is kAnnounced calls ahead is not
// checked.
#pragma once

#include <cstdint>

#include "src/exec/team.hpp"
#include "src/transport/transport.hpp"
#include "tutti/error.hpp"

namespace tutti::exec {

/// One per team; one thread at a time. Value.
class Announcements {
 public:
  explicit Announcements(Team& team) : team_(&team) {}

  /// Announces the next call. kInvalidUsage, naming a peer and both calls, if the peer made another
  /// one.
  Status announce(const CallSignature& call);
  /// Announces nothing more: from now on ranks may count their calls differently.
  void stop() { stopped_ = true; }

 private:
  [[nodiscard]] Status compare(Rank peer, const CallSignature& call) const;

  Team* team_;
  std::uint64_t number_ = 0;  ///< calls announced
  bool stopped_ = false;
};

}  // namespace tutti::exec
