#include "src/comm/call_counters.hpp"

namespace tutti {

CallTotals CallCounters::totals(Collective collective) const {
  const Totals& totals = totals_[static_cast<std::size_t>(collective)];
  CallTotals result;
  result.calls = totals.calls.load(std::memory_order_relaxed);
  result.sent.all = totals.sent.load(std::memory_order_relaxed);
  result.sent.to_other_hosts = totals.sent_to_other_hosts.load(std::memory_order_relaxed);
  result.seconds = tick_.seconds(totals.ticks.load(std::memory_order_relaxed));
  return result;
}

std::optional<CallUnderWay> CallCounters::under_way() const {
  for (;;) {
    const std::uint64_t sequence = started_.load(std::memory_order_acquire);
    const std::uint32_t what = what_.load(std::memory_order_acquire);
    const std::uint64_t count = count_.load(std::memory_order_acquire);
    const std::uint64_t began = began_.load(std::memory_order_acquire);
    if (ended_.load(std::memory_order_acquire) < sequence)
      return CallUnderWay{static_cast<Collective>(what >> 8), static_cast<DataType>(what & 0xff),
                          count, sequence, tick_.seconds(ticks_between(began, ticks()))};
    if (started_.load(std::memory_order_acquire) == sequence) return std::nullopt;
  }
}

}  // namespace tutti
