// Which stores a plan uses, found out while it runs.
//
// Streaming (non-temporal) stores save the read of a line that will be overwritten, and the
// invalidation of a copy that another core holds; ordinary stores leave the result in the cache.
// Which is faster depends on the machine, on the size and on where the hypervisor has put its CPUs
// at the moment: up to seven times either way. So a plan times its calls. Mostly they use the best
// choice so far; now and then a few calls in a row, since the caches take one to get used to it,
// use another one, the more rarely the worse that was. The choice is each rank's own: no result and
// no other rank depends on it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/base/clock.hpp"

namespace tutti::exec {

/// Below a few lines the fence after streaming stores costs more than they save.
inline constexpr std::size_t kStreamFrom = 1024;

/// Where stores are streaming ones.
struct StreamingStores {
  bool output = false;  ///< into the rank's own output
  bool peers = false;   ///< into what peers read next: slots, and with kDirect their outputs
  friend bool operator==(const StreamingStores&, const StreamingStores&) = default;
};

/// Value. Alternates begin() and end(), or begin() again where a call did not end well.
class StoreChoice {
 public:
  /// `may_stream_output` false: it is small enough to be read from the cache later, which these
  /// times would not show.
  StoreChoice(StreamingStores first, bool may_stream_output);

  /// What the next call uses.
  StreamingStores begin();
  /// How long it took.
  void end(Nanos time);
  /// The best so far.
  [[nodiscard]] StreamingStores best() const;

 private:
  static constexpr std::size_t kChoices = 4;
  static constexpr std::size_t kSamples = 3;  ///< the least of so many is an estimate

  std::size_t best_, running_;
  std::array<Nanos, kSamples> best_times_{};  ///< the last ones
  std::uint64_t best_samples_ = 0;
  std::array<std::uint64_t, kChoices> due_{};  ///< not tried before this call
  std::uint64_t trial_calls_ = 0;              ///< of the trial under way, 0: none
  Nanos trial_least_{};                        ///< of its calls but the first
  std::uint64_t calls_ = 0;
};

}  // namespace tutti::exec
