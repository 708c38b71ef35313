// Chooses the stores of a plan by measuring while it runs.
//
// Streaming (non-temporal) stores avoid reading a line that will be overwritten, and invalidating a
// copy in another core. Ordinary stores leave the result in the cache. Which is faster depends on
// the machine, on the size, and on where the hypervisor has placed its CPUs at the moment: up to
// seven times either way. So a plan times its calls. Most calls use the best choice so far. Now and
// then a few consecutive calls use another choice, because the caches need one call to adapt. The
// worse a choice was, the more rarely it is tried. Each rank chooses by itself: neither results nor
// other ranks depend on it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/base/clock.hpp"

namespace tutti::exec {

/// For less than a few lines, the fence after streaming stores costs more than they save.
inline constexpr std::size_t kStreamFrom = 1024;

/// Which stores are streaming stores.
struct StreamingStores {
  bool output = false;  ///< to the rank's own output
  bool peers = false;   ///< to memory that peers read next: slots, and with kDirect their outputs
  friend bool operator==(const StreamingStores&, const StreamingStores&) = default;
};

/// Value. Call begin() and end() alternately, or begin() again if a call failed.
class StoreChoice {
 public:
  /// `may_stream_output` is false for an output small enough to be read from the cache later; the
  /// times measured here would not show that benefit.
  StoreChoice(StreamingStores first, bool may_stream_output);

  /// What the next call uses.
  StreamingStores begin();
  /// Reports how long the call took.
  void end(Nanos time);
  /// The best choice so far.
  [[nodiscard]] StreamingStores best() const;

 private:
  static constexpr std::size_t kChoices = 4;
  static constexpr std::size_t kSamples = 3;  ///< the minimum of this many is an estimate

  std::size_t best_, running_;
  std::array<Nanos, kSamples> best_times_{};  ///< the latest ones
  std::uint64_t best_samples_ = 0;
  std::array<std::uint64_t, kChoices> due_{};  ///< earliest call that may try each choice
  std::uint64_t trial_calls_ = 0;              ///< calls of the current trial; 0: none
  Nanos trial_least_{};                        ///< minimum over its calls, without the first
  std::uint64_t calls_ = 0;
};

}  // namespace tutti::exec
