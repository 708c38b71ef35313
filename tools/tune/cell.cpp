#include "tools/tune/cell.hpp"

#include <algorithm>
#include <cmath>

#include "tools/bench/stats.hpp"

namespace tutti::tune {
namespace {

constexpr double kAsGood = 1.1;

std::uint64_t nanoseconds(double us) { return static_cast<std::uint64_t>(std::llround(us * 1000)); }

/// The best candidate that runs the library's own algorithm; nullptr when none does.
const Timed* own_candidate(const Cell& cell) {
  const Timed* best = nullptr;
  for (const Timed& candidate : cell.candidates) {
    if (candidate.way.algorithm != cell.own.way.algorithm) continue;
    if (best == nullptr || candidate.median() < best->median()) best = &candidate;
  }
  return best;
}

/// Whether the library's own algorithm, which was measured twice, may stay.
bool is_as_good(const Timed& among_candidates, const Timed& own, const Timed& best) {
  const auto reaches = [&](double (Timed::*figure)() const) {
    return std::min((among_candidates.*figure)(), (own.*figure)()) <= kAsGood * (best.*figure)();
  };
  return reaches(&Timed::median) || reaches(&Timed::lower_quartile);
}

double quantile(std::vector<double> us, double part) {
  std::ranges::sort(us);
  return bench::quantile(us, part);
}

/// The last size that is nearer to `lower` than to `higher`, by ratio.
std::uint64_t between(double lower, double higher) {
  return static_cast<std::uint64_t>(std::sqrt(lower * higher));
}

}  // namespace

double Timed::median() const { return quantile(us, 0.5); }

double Timed::lower_quartile() const { return quantile(us, 0.25); }

const Timed& best_of(const Cell& cell) {
  return *std::ranges::min_element(cell.candidates, {}, &Timed::median);
}

Finding fastest_way(const Cell& cell) {
  const Timed* chosen = &best_of(cell);
  const Timed* const own = own_candidate(cell);
  if (own != nullptr && is_as_good(*own, cell.own, *chosen)) chosen = own;
  Finding finding{chosen->way, chosen->median(), 0};
  for (const Timed& candidate : cell.candidates) {
    if (&candidate == chosen) continue;
    const double us = candidate.median();
    if (finding.next_us == 0 || us < finding.next_us) finding.next_us = us;
  }
  return finding;
}

double regret(const Cell& cell) {
  return std::max(0.0, cell.own.median() / best_of(cell).median() - 1);
}

Summary summary_of(std::span<const Cell> cells) {
  Summary summary;
  double logarithms = 0;
  for (const Cell& cell : cells) {
    const double here = regret(cell);
    logarithms += std::log1p(here);
    if (summary.worst_cell != nullptr && here <= summary.worst) continue;
    summary.worst = here;
    summary.worst_cell = &cell;
  }
  if (!cells.empty())
    summary.geometric_mean = std::expm1(logarithms / static_cast<double>(cells.size()));
  return summary;
}

std::vector<MeasuredRange> ranges_of(std::span<const Cell> cells, const Arrangement& arrangement,
                                     std::int64_t measured_s) {
  std::vector<MeasuredRange> ranges;
  const auto bytes = [&](std::size_t i) { return static_cast<double>(cells[i].bytes); };
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool first = i == 0, last = i + 1 == cells.size();
    const double here = bytes(i);
    const double down = first ? (last ? 4 : bytes(1) / here) : here / bytes(i - 1);
    const double up = last ? (first ? 4 : here / bytes(i - 1)) : bytes(i + 1) / here;
    const Finding finding = fastest_way(cells[i]);
    MeasuredRange range;
    range.collective = cells[i].collective;
    range.arrangement = arrangement;
    range.from_bytes = between(here / down, here) + (first ? 0 : 1);
    range.to_bytes = between(here, here * up);
    range.way = finding.way;
    range.at_bytes = cells[i].bytes;
    range.nanos = nanoseconds(finding.us);
    range.next_nanos = nanoseconds(finding.next_us);
    range.measured_s = measured_s;
    ranges.push_back(range);
  }
  return ranges;
}

}  // namespace tutti::tune
