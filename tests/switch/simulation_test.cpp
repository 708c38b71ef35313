// Jobs on switches whose network does whatever it likes. TUTTI_SEEDS: how many seeds; TUTTI_SEED:
// the first.
#include "tests/switch/simulation.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include <gtest/gtest.h>

#include "src/base/sanitized.hpp"

namespace tutti::in_network {
namespace {

std::uint64_t asked(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(SwitchJobs, AreRightWhateverTheSeedDoes) {
  const std::uint64_t first = asked("TUTTI_SEED", std::random_device{}());
  const std::uint64_t count = asked("TUTTI_SEEDS", kSanitized ? 100 : 1000);
  std::printf("%llu seeds from %llu\n", static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(first));
  std::uint64_t events = 0;
  std::uint64_t failures = 0;
  std::uint64_t most = 0;
  double error = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const SimulationPlan plan = random_plan(seed);
    const SimulationReport report = simulate(plan);
    ASSERT_EQ(report.wrong, "") << "TUTTI_SEED=" << seed << " TUTTI_SEEDS=1";
    events += report.events;
    most = std::max(most, report.events);
    failures += report.session_failures;
    error = std::max(error, report.greatest_error);
  }
  std::printf(
      "%llu events, at most %llu of a seed; %llu sessions failed; greatest error of a float "
      "sum: %.3f of the bound\n",
      static_cast<unsigned long long>(events), static_cast<unsigned long long>(most),
      static_cast<unsigned long long>(failures), error);
  EXPECT_LE(error, 1);
}

}  // namespace
}  // namespace tutti::in_network
