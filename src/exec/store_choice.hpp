// Chooses the stores of a plan by measuring while it runs.
//
// Streaming (non-temporal) stores avoid reading a line that will be overwritten, and invalidating a
// copy in another core. Ordinary stores leave the result in the cache. Which is faster depends on
// the machine, on the size, and on where the hypervisor has placed its CPUs at the moment: up to
// seven times either way. So a plan times its calls. Most calls use the best choice so far. Now and
// then a few consecutive calls use another choice, because the caches need one call to adapt. A
// choice that loses is tried more and more rarely, until the best one takes much longer than it
// did.
//
// What one rank stores, others load, so a choice shows its worth when all make it. All ranks make
// the same calls, and each choice has its calls in a cycle of calls in which it may be tried. So
// ranks that try a choice do so together. Otherwise each rank chooses by itself: neither results
// nor other ranks depend on it.
//
// A rank that only stores, such as the root of a broadcast, does not feel what its stores cost its
// readers: on two CPUs of an EPYC, streaming 32 KiB took it no longer, and its reader 0.8 us more.
// So ranks that only load tell how long that took them, and a rank that only stores adds what it
// is told to its own times.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

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

/// What a rank does with memory that peers read.
enum class StoreRole : std::uint8_t { kBoth, kStores, kLoads };

/// The least times with ordinary and with streaming stores; 0: not known.
using TimesByStores = std::array<Nanos, 2>;

/// Value.
class StoreChoice {
 public:
  /// `may_stream_output` is false for an output small enough to be read from the cache later; the
  /// times measured here would not show that benefit. `first` may, all the same. It must be the
  /// same on ranks that read each other's stores.
  StoreChoice(StreamingStores first, bool may_stream_output, StoreRole role = StoreRole::kBoth);

  /// kStores: whether take_advice() is to be called before the next begin(), with a reader's times.
  [[nodiscard]] bool asks() const;
  void take_advice(const TimesByStores& loads);
  /// kLoads: what to tell those that store, after an end(). Nothing until a trial is over, or if it
  /// lacks times.
  [[nodiscard]] std::optional<TimesByStores> advice() const;

  struct Turn {
    StreamingStores stores;
    bool timed = false;  ///< end() is to be called, unless the call fails
  };
  /// What the next call uses.
  Turn begin();
  /// Reports how long the call took.
  void end(Nanos time);
  /// The best choice so far.
  [[nodiscard]] StreamingStores best() const { return choices_[best_].stores; }

 private:
  static constexpr std::size_t kSamples = 3;  ///< the minimum of this many is an estimate

  struct Choice {
    StreamingStores stores;
    unsigned losses = 0;  ///< of late: it is tried in every 2^losses-th cycle
  };
  [[nodiscard]] bool is_tried(std::size_t choice) const;
  Turn begin_in_common(std::uint64_t window, std::uint64_t in_window);
  void end_in_common(Nanos time);
  [[nodiscard]] bool ends_common_trial() const;
  void choose(StreamingStores stores);
  [[nodiscard]] Nanos best_time() const;
  void look_for_changes();
  void judge(double ratio);

  StoreRole role_;
  std::vector<Choice> choices_;  ///< in the same order on all ranks
  std::size_t best_ = 0, running_ = 0;
  std::array<Nanos, kSamples> best_times_{};  ///< the latest ones
  std::uint64_t best_samples_ = 0;
  Nanos usual_{};               ///< the best's time in the last cycle; 0: not known
  Nanos trial_least_{};         ///< minimum over the trial's calls, without the first; 0: none yet
  bool trial_is_over_ = false;  ///< before its last call
  std::uint64_t calls_ = 0;     ///< so far
  TimesByStores by_peers_{}, by_output_{};  ///< least times in the last common trial
};

}  // namespace tutti::exec
