// All-reduce times that follow from the formulas of the papers alone, and that the simulator must
// reproduce: a switch that never blocks, ranks with one port of 25 GB/s, 5 microseconds from rank
// to rank, reductions for nothing.
//
//   ring                (Patarasuk, Yuan 2009)            2(n-1) alpha + 2S(n-1)/n beta
//   recursive doubling  (fold to p = 2^k ranks, 2^k <= n) (log2 p + 2) (alpha + S beta)
//   Rabenseifner        (the same fold)                   (2 log2 p + 2) alpha + 2S(p-1)/p beta
//                                                         + 2S beta
//   circulant           (Traeff, arXiv 2410.14234)        2L alpha + 2S(n-1)/n beta, L = ceil(log2
//   n)
#include <cmath>
#include <ostream>
#include <string_view>

#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"
#include "src/sim/simulate.hpp"

namespace tutti::sim {
namespace {

/// One time in microseconds as printed, with `digits` after the point.
struct Worked {
  std::string_view algorithm;
  std::int32_t ranks;
  std::size_t bytes;
  double us;
  int digits;
  friend std::ostream& operator<<(std::ostream& out, const Worked& worked) {
    return out << worked.algorithm << ", " << worked.ranks << " ranks, " << worked.bytes
               << " bytes";
  }
};

constexpr std::size_t kKilobyte = 1000;
constexpr std::size_t kMegabyte = 1000 * kKilobyte;
constexpr std::size_t kGigabyte = 1000 * kMegabyte;

constexpr Worked kWorked[] = {
    {"ring", 12, kKilobyte, 110.1, 1},
    {"recursive_doubling", 12, kKilobyte, 25.2, 1},
    {"rabenseifner", 12, kKilobyte, 40.2, 1},
    {"circulant", 12, kKilobyte, 40.1, 1},
    {"ring", 12, 100 * kKilobyte, 117.3, 1},
    {"recursive_doubling", 12, 100 * kKilobyte, 45.0, 1},
    {"rabenseifner", 12, 100 * kKilobyte, 55.0, 1},
    {"circulant", 12, 100 * kKilobyte, 47.3, 1},
    {"ring", 12, kMegabyte, 183.3, 1},
    {"recursive_doubling", 12, kMegabyte, 225, 0},
    {"rabenseifner", 12, kMegabyte, 190, 0},
    {"circulant", 12, kMegabyte, 113.3, 1},
    {"ring", 12, 10 * kMegabyte, 843, 0},
    {"recursive_doubling", 12, 10 * kMegabyte, 2025, 0},
    {"rabenseifner", 12, 10 * kMegabyte, 1540, 0},
    {"circulant", 12, 10 * kMegabyte, 773, 0},
    {"ring", 12, kGigabyte, 73443, 0},
    {"recursive_doubling", 12, kGigabyte, 200025, 0},
    {"rabenseifner", 12, kGigabyte, 150040, 0},
    {"circulant", 12, kGigabyte, 73373, 0},
    {"ring", 96, kKilobyte, 950.1, 1},
    {"recursive_doubling", 96, kKilobyte, 40.3, 1},
    {"rabenseifner", 96, kKilobyte, 70.2, 1},
    {"circulant", 96, kKilobyte, 70.1, 1},
    {"ring", 96, 100 * kKilobyte, 957.9, 1},
    {"recursive_doubling", 96, 100 * kKilobyte, 72.0, 1},
    {"rabenseifner", 96, 100 * kKilobyte, 85.9, 1},
    {"circulant", 96, 100 * kKilobyte, 77.9, 1},
    {"ring", 96, kMegabyte, 1029, 0},
    {"recursive_doubling", 96, kMegabyte, 360, 0},
    {"rabenseifner", 96, kMegabyte, 228.7, 1},
    {"circulant", 96, kMegabyte, 149.2, 1},
    {"ring", 96, 10 * kMegabyte, 1742, 0},
    {"recursive_doubling", 96, 10 * kMegabyte, 3240, 0},
    {"rabenseifner", 96, 10 * kMegabyte, 1658, 0},
    {"circulant", 96, 10 * kMegabyte, 862, 0},
    {"ring", 96, kGigabyte, 80117, 0},
    {"recursive_doubling", 96, kGigabyte, 320040, 0},
    {"rabenseifner", 96, kGigabyte, 158820, 0},
    {"circulant", 96, kGigabyte, 79237, 0},
};

// The formulas know no remainders. Bytes and bandwidth are both taken so many times as large that
// every algorithm's chunks come out equal; times stay the same.
constexpr std::size_t kScale = 96 * 64;

/// What lies halfway between two printed numbers may have been rounded either way.
constexpr double kHalfways = 1e-6;

class WorkedNumbers : public testing::TestWithParam<Worked> {};

TEST_P(WorkedNumbers, AreReproducedToTheLastDigit) {
  const Worked& worked = GetParam();
  const ir::Request request{Collective::kAllReduce, worked.ranks, 0, false};
  for (const ir::Algorithm& algorithm : algorithms::all()) {
    if (algorithm.name != worked.algorithm) continue;
    const auto schedule = algorithm.generate(request);
    ASSERT_TRUE(schedule) << schedule.error().what;
    UniformSwitch fabric({.ranks = worked.ranks, .bandwidth = 25.0 * kScale, .latency = 5});
    const auto outcome = simulate(*schedule, {worked.bytes * kScale, 1}, fabric, {.ports = 1});
    ASSERT_TRUE(outcome) << outcome.error().what;
    EXPECT_NEAR(outcome->time_us, worked.us, 0.5 * std::pow(10, -worked.digits) + kHalfways);
    return;
  }
  FAIL() << "no algorithm of this name";
}

INSTANTIATE_TEST_SUITE_P(Formulas, WorkedNumbers, testing::ValuesIn(kWorked));

}  // namespace
}  // namespace tutti::sim
