#include "src/cost/tuning.hpp"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

namespace tutti {
namespace {

/// What is not faster by so much may be so by chance.
constexpr double kClearly = 0.9;

std::string bytes_text(std::uint8_t size) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  return fmt::format("{} {}", 1U << size % 10, kUnits[size / 10]);
}

struct Span {
  std::uint64_t first_begin, last_begin, last_end, shortest, longest;
};

std::optional<Span> span_of(std::span<const Try> ranks) {
  if (ranks.empty()) return std::nullopt;
  Span all{ranks.front().began, 0, 0, UINT64_MAX, 0};
  for (const Try& one : ranks) {
    if (one.began == 0 || one.ended < one.began) return std::nullopt;
    all.first_begin = std::min(all.first_begin, one.began);
    all.last_begin = std::max(all.last_begin, one.began);
    all.last_end = std::max(all.last_end, one.ended);
    all.shortest = std::min(all.shortest, one.ended - one.began);
    all.longest = std::max(all.longest, one.ended - one.began);
  }
  return all;
}

}  // namespace

std::uint8_t size_class(std::size_t bytes) {
  if (bytes <= 1) return 0;
  return std::min(static_cast<std::uint8_t>(std::bit_width(bytes - 1)), kLargestSize);
}

std::string describe(const CallClass& of, const Arrangement& ranks) {
  std::string spread;
  if (ranks.hosts > 1)
    spread = fmt::format(" on {} hosts (at most {} on one, {} machine{}, {} Mbit/s)", ranks.hosts,
                         ranks.most_on_a_host, ranks.machines, ranks.machines == 1 ? "" : "s",
                         ranks.mbit_per_s == 0 ? "unknown" : fmt::to_string(ranks.mbit_per_s));
  return fmt::format("{}, {} ranks{}, up to {}", name_of(of.collective), ranks.ranks, spread,
                     bytes_text(of.size));
}

MeasuredRange verdict_on(const CallClass& of, const Arrangement& arrangement, const Way& way,
                         std::int64_t measured_s) {
  const bool gathers =
      of.collective == Collective::kAllGather || of.collective == Collective::kGather;
  const auto inputs = static_cast<std::uint64_t>(gathers ? arrangement.ranks : 1);
  const std::uint64_t most = std::min(inputs, kMostMeasured >> of.size) << of.size;
  const std::uint64_t least = of.size == 0 ? 0 : most / 2 + 1;
  return {of.collective, arrangement, least, most, way, most, 0, 0, measured_s};
}

std::optional<std::uint64_t> since_last_came(std::span<const Try> ranks) {
  const std::optional<Span> all = span_of(ranks);
  if (!all || all->last_end <= all->last_begin) return std::nullopt;
  return all->last_end - all->last_begin;
}

std::optional<std::uint64_t> since_first_came(std::span<const Try> ranks,
                                              std::span<const Try> before) {
  const std::optional<Span> all = span_of(ranks), earlier = span_of(before);
  if (!all || !earlier) return std::nullopt;
  const std::uint64_t begin = std::max(all->first_begin, earlier->last_end);
  if (all->last_end <= begin) return std::nullopt;
  return all->last_end - begin;
}

std::optional<std::uint64_t> shortest(std::span<const Try> ranks) {
  const std::optional<Span> all = span_of(ranks);
  return all ? std::optional(all->shortest) : std::nullopt;
}

std::optional<std::uint64_t> longest(std::span<const Try> ranks) {
  const std::optional<Span> all = span_of(ranks);
  return all ? std::optional(all->longest) : std::nullopt;
}

std::optional<std::uint64_t> typical(std::span<const std::optional<std::uint64_t>> tries) {
  std::vector<std::uint64_t> times;
  for (const auto& time : tries)
    if (time) times.push_back(*time);
  if (times.empty() || 2 * times.size() < tries.size()) return std::nullopt;
  const auto quarter = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 4);
  std::nth_element(times.begin(), quarter, times.end());
  return *quarter;
}

std::optional<std::size_t> fastest(std::span<const std::optional<std::uint64_t>> nanos) {
  if (nanos.empty() || !nanos.front()) return std::nullopt;
  const double in_use = static_cast<double>(*nanos.front());
  std::size_t best = 0;
  bool compared = false;
  for (std::size_t way = 1; way < nanos.size(); ++way) {
    if (!nanos[way]) continue;
    compared = true;
    const bool clearly = static_cast<double>(*nanos[way]) < kClearly * in_use;
    if (clearly && *nanos[way] < *nanos[best]) best = way;
  }
  if (!compared) return std::nullopt;
  return best;
}

}  // namespace tutti
