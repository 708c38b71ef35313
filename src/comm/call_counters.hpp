// What the calls of a communicator have done on this rank, and what is under way. The thread that
// drives the communicator counts; any thread reads.
//
// Counting takes some thirty instructions a call. Only the driving thread writes, so atomic loads
// and stores suffice, and no read-modify-write is needed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "src/base/ticks.hpp"
#include "src/exec/sent_bytes.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// Of one collective, since the communicator was made; see tuttiOperationStats for what counts.
struct CallTotals {
  std::uint64_t calls = 0;  ///< that completed
  exec::SentBytes sent;
  double seconds = 0;
};

/// A call, or the first of a group of sends and receives, that has begun and is not over.
struct CallUnderWay {
  Collective collective = Collective::kAllReduce;
  DataType type = DataType::kFloat32;
  std::uint64_t count = 0;
  std::uint64_t sequence = 0;  ///< from 1; a group of sends and receives has one number
  double age_s = 0;
};

/// Resource. The driving thread calls begin() to cancel(); any thread may call the others.
class CallCounters {
 public:
  /// A call begins. If one is under way, that one goes on, and nothing is counted.
  void begin(Collective collective, DataType type, std::uint64_t count) {
    if (is_under_way()) return;
    // Released, so that whoever sees one of these also sees that the call before is over.
    what_.store(static_cast<std::uint32_t>(collective) << 8 | static_cast<std::uint32_t>(type),
                std::memory_order_release);
    count_.store(count, std::memory_order_release);
    begin_again();
  }
  /// The same call as before begins.
  void begin_again() {
    began_.store(ticks(), std::memory_order_release);
    started_.store(started_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  /// A call is complete. Others may be under way together with it.
  void add(Collective collective, const exec::SentBytes& sent) {
    Totals& totals = totals_[static_cast<std::size_t>(collective)];
    increase(totals.calls, 1);
    increase(totals.sent, sent.all);
    increase(totals.sent_to_other_hosts, sent.to_other_hosts);
  }
  /// What is under way is over; its time counts as `collective`'s.
  void end(Collective collective) {
    const std::uint64_t took = ticks_between(began_.load(std::memory_order_relaxed), ticks());
    increase(totals_[static_cast<std::size_t>(collective)].ticks, took);
    cancel();
  }
  /// What is under way, if anything, will not be completed.
  void cancel() {
    ended_.store(started_.load(std::memory_order_relaxed), std::memory_order_release);
  }

  [[nodiscard]] CallTotals totals(Collective collective) const;
  [[nodiscard]] std::optional<CallUnderWay> under_way() const;

 private:
  using Counter = std::atomic<std::uint64_t>;
  struct Totals {
    Counter calls{0}, sent{0}, sent_to_other_hosts{0}, ticks{0};
  };

  /// By the only thread that writes it.
  static void increase(Counter& counter, std::uint64_t by) {
    counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_under_way() const {
    return started_.load(std::memory_order_relaxed) != ended_.load(std::memory_order_relaxed);
  }

  const TickLength tick_;
  // How many calls began, and how many of them are over. The rest is about the last that began.
  Counter started_{0}, ended_{0};
  std::atomic<std::uint32_t> what_{0};
  Counter count_{0}, began_{0};
  std::array<Totals, kCollectives> totals_;
};

}  // namespace tutti
