// Order statistics of timings.
#pragma once

#include <span>

namespace tutti::bench {

/// The q-quantile (0..1) of values in ascending order, interpolated between neighbours; 0 of none.
double quantile(std::span<const double> sorted, double q);

/// Half the width of the median's 95 % confidence interval, relative to the median. From order
/// statistics, so it holds for any distribution (Le Boudec, "Performance Evaluation of Computer and
/// Communication Systems", 2.2); infinite below 8 values, which do not bound it.
double median_uncertainty(std::span<const double> sorted);

}  // namespace tutti::bench
