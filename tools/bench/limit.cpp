#include "tools/bench/limit.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tools/program/sizes.hpp"

namespace tutti::bench {
namespace {

constexpr std::size_t kSmallestProbe = 32 << 10;
constexpr std::size_t kLargestProbe = 64 << 20;  // far beyond caches: more would say the same
constexpr std::size_t kProbeStep = 8;

/// Blocks of one rank that nobody has to load or store in place, because they stay where they are.
std::size_t resting_blocks(const Shape& shape, Rank rank) {
  switch (shape.test) {
    case Collective::kAllGather:
      return 1;  // its own block is loaded for the others, not stored
    case Collective::kBroadcast:
      return rank == shape.root ? 1 : 0;
    case Collective::kGather:
    case Collective::kScatter:
      return rank == shape.root ? 2 : 0;  // the root's own block is neither loaded nor stored
    default:
      return 0;
  }
}

}  // namespace

std::size_t least_traffic(const Shape& shape, bool in_place) {
  if (in_place && shape.ranks == 1) return 0;
  std::size_t blocks = 0;
  for (Rank rank = 0; rank < shape.ranks; ++rank) {
    const Blocks own = blocks_of(shape, rank);
    blocks += own.send + own.recv - (in_place ? resting_blocks(shape, rank) : 0);
  }
  return blocks * shape.block_bytes();
}

double CopyBandwidth::gb_s(std::size_t bytes) const {
  const auto above = std::ranges::lower_bound(points, bytes, {}, &Point::bytes);
  if (above == points.begin()) return points.front().gb_s;
  if (above == points.end()) return points.back().gb_s;
  const Point& low = *(above - 1);
  const double whole =
      std::log2(static_cast<double>(above->bytes) / static_cast<double>(low.bytes));
  const double part = std::log2(static_cast<double>(bytes) / static_cast<double>(low.bytes));
  return low.gb_s + (above->gb_s - low.gb_s) * part / whole;
}

std::vector<std::size_t> probe_sizes(std::size_t largest) {
  std::vector<std::size_t> sizes = {kSmallestProbe};
  const std::size_t end = std::min(largest, kLargestProbe);
  while (sizes.back() < end) sizes.push_back(std::min(sizes.back() * kProbeStep, end));
  return sizes;
}

std::optional<double> limit_percent(const Shape& shape, bool in_place,
                                    const CopyBandwidth& bandwidth, double us) {
  const std::size_t traffic = least_traffic(shape, in_place);
  const double gb_s = bandwidth.gb_s(traffic / 2 / static_cast<std::size_t>(shape.ranks));
  if (traffic == 0 || us <= 0 || gb_s <= 0) return std::nullopt;
  const double limit_us = static_cast<double>(traffic) / gb_s / 1e3;
  return 100 * limit_us / us;
}

std::string bandwidth_text(const CopyBandwidth& bandwidth) {
  std::string text;
  for (const auto& [bytes, gb_s] : bandwidth.points)
    text += fmt::format("{}{} {:.3g}", text.empty() ? "" : ", ", tools::size_text(bytes), gb_s);
  return text + " GB/s";
}

}  // namespace tutti::bench
