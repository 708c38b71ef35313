#include "tools/bench/probe.hpp"

#include <algorithm>
#include <chrono>

#include "src/base/clock.hpp"
#include "src/base/result.hpp"
#include "src/reduce/reduce.hpp"

namespace tutti::bench {
namespace {

constexpr std::chrono::microseconds kLead{
    1500};  // until all ranks copy, and caches hold what they can
constexpr std::chrono::microseconds kWindow{
    5000};  // more than the time slices of ranks that share a core
constexpr std::size_t kPiece = 64 << 10;
constexpr std::size_t kBetweenReadings = 128 << 10;  // so that reading the clock costs nothing

/// Walks again and again through `bytes` of every rank's buffers.
class Copier {
 public:
  Copier(const CrewBuffers& buffers, std::size_t bytes, Stores stores)
      : buffers_(buffers), bytes_(bytes), stores_(stores) {}

  /// Copies about kBetweenReadings; returns how much it was.
  std::size_t some() {
    std::size_t copied = 0;
    while (copied < kBetweenReadings) copied += piece();
    return copied;
  }

 private:
  std::size_t piece() {
    const std::size_t length = std::min(kPiece, bytes_ - offset_);
    const Destination to[] = {{buffers_.recv[rank_].host.data() + offset_, stores_}};
    copy_bytes(buffers_.send[rank_].host.data() + offset_, to, length);
    offset_ += length;
    if (offset_ == bytes_) {
      offset_ = 0;
      rank_ = (rank_ + 1) % buffers_.send.size();
    }
    return length;
  }

  const CrewBuffers& buffers_;
  std::size_t bytes_;
  Stores stores_;
  std::size_t rank_ = 0;
  std::size_t offset_ = 0;
};

/// The moment when all crews begin to count. One host has one monotonic clock.
Result<TimePoint> agree_on_start(Crew& crew) {
  TUTTI_TRY(crew.barrier());
  using Seconds = std::chrono::duration<double>;
  double start[1] = {Seconds((Clock::now() + kLead).time_since_epoch()).count()};
  TUTTI_TRY(crew.largest(start));
  return TimePoint(std::chrono::duration_cast<Clock::duration>(Seconds(start[0])));
}

/// GB/s of loads and stores of all crews together.
Result<double> copy_together(Crew& crew, Copier copier) {
  TUTTI_ASSIGN(const TimePoint start, agree_on_start(crew));
  const TimePoint end = start + kWindow;
  std::size_t counted = 0;
  TimePoint before = Clock::now();
  while (before < end) {
    const std::size_t copied = copier.some();
    const TimePoint after = Clock::now();
    if (before >= start && after <= end) counted += copied;
    before = after;
  }
  double bytes[1] = {2.0 * static_cast<double>(counted)};
  TUTTI_TRY(crew.sum(bytes));
  return bytes[0] / std::chrono::duration<double, std::nano>(kWindow).count();
}

}  // namespace

Result<CopyBandwidth> probe_copies(Crew& crew, const CrewBuffers& buffers, std::size_t largest) {
  CopyBandwidth bandwidth;
  for (const std::size_t bytes : probe_sizes(largest)) {
    double best = 0;
    for (const Stores stores : {Stores::kCached, Stores::kNonTemporal}) {
      TUTTI_ASSIGN(const double gb_s, copy_together(crew, {buffers, bytes, stores}));
      best = std::max(best, gb_s);
    }
    bandwidth.points.push_back({bytes, best});
  }
  return bandwidth;
}

}  // namespace tutti::bench
