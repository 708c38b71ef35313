#include "tools/bench/stats.hpp"

#include <cmath>
#include <cstddef>
#include <limits>

namespace tutti::bench {

double quantile(std::span<const double> sorted, double q) {
  if (sorted.empty()) return 0;
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  if (below + 1 >= sorted.size()) return sorted.back();
  const double weight = position - static_cast<double>(below);
  return sorted[below] * (1 - weight) + sorted[below + 1] * weight;
}

double median_uncertainty(std::span<const double> sorted) {
  constexpr std::size_t kFewest = 8;
  if (sorted.size() < kFewest) return std::numeric_limits<double>::infinity();
  const double n = static_cast<double>(sorted.size());
  const double reach = 0.98 * std::sqrt(n);  // 1.96 standard deviations of a binomial(n, 1/2)
  const auto low = static_cast<std::size_t>(std::max(0.0, std::floor(n / 2 - reach)));
  const auto high = std::min(sorted.size() - 1, static_cast<std::size_t>(std::ceil(n / 2 + reach)));
  const double median = quantile(sorted, 0.5);
  return median > 0 ? (sorted[high] - sorted[low]) / 2 / median : 0;
}

}  // namespace tutti::bench
