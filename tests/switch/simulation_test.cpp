// Jobs on switches whose network does whatever it likes. TUTTI_SEEDS: how many seeds; TUTTI_SEED:
// the first.
#include "tests/switch/simulation.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/sanitized.hpp"

namespace tutti::in_network {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

std::uint64_t asked(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(SwitchJobs, AreRightWhateverTheSeedDoes) {
  const std::uint64_t first = asked("TUTTI_SEED", std::random_device{}());
  const std::uint64_t count = asked("TUTTI_SEEDS", kSanitized ? 150 : 5000);
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
    for (const std::string& what : report.errors)
      ASSERT_THAT(what, AnyOf(HasSubstr("does not know the session"), HasSubstr("silent for")))
          << "TUTTI_SEED=" << seed << " TUTTI_SEEDS=1";
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

SimulationPlan calm_plan(std::vector<unsigned> leaves, const CallCase& call, std::uint32_t slots) {
  SimulationPlan plan{.seed = 5, .faults = {.delay = Nanos(10'000), .spread = 0}, .jobs = {}};
  plan.jobs.push_back({.leaves = std::move(leaves), .slots = slots, .calls = {call}});
  return plan;
}

/// What operation.hpp states of packets with values that one member sends and receives.
struct StatedCounts {
  std::uint64_t sent = 0, received = 0;
};
std::uint64_t stated_chunks(const Operation& operation) {
  const bool floats = reduces(operation.collective) && is_scaled(operation.type);
  const std::size_t width = floats ? operation.bits / 8 : size_of(operation.type);
  return (operation.count * width + 1407) / 1408;
}
StatedCounts stated(const Operation& operation, unsigned members, unsigned member) {
  const std::uint64_t chunks = stated_chunks(operation);
  const bool is_root = static_cast<unsigned>(operation.root) == member;
  switch (operation.collective) {
    case Collective::kReduce:
      return {chunks, is_root ? chunks : 0};
    case Collective::kBroadcast:
      return {is_root ? chunks : 0, is_root ? 0 : chunks};
    case Collective::kReduceScatter:
      return {members * chunks, chunks};
    case Collective::kAllGather:
      return {chunks, (members - 1) * chunks};
    default:
      return {chunks, chunks};
  }
}

TEST(SwitchJobs, WithoutLossSendAndReceiveTheStatedPackets) {
  std::mt19937_64 random(3);
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast,
        Collective::kReduceScatter, Collective::kAllGather})
    for (const auto& [type, bits] : {std::pair{DataType::kFloat32, 32U},
                                     {DataType::kFloat32, 16U},
                                     {DataType::kBfloat16, 32U},
                                     {DataType::kBfloat16, 8U},
                                     {DataType::kInt32, 32U},
                                     {DataType::kInt8, 32U},
                                     {DataType::kUint64, 32U}})
      for (const std::size_t count : {0, 1, 352, 353, 5000})
        for (const std::uint32_t slots : {1U, 8U, 16U}) {
          const Operation operation{
              .collective = collective, .type = type, .bits = bits, .root = 2, .count = count};
          CallCase call = case_of(operation, random, 4);
          // No chunk may be all zero, because those travel without values.
          if (reduces(collective))
            for (Bytes& input : call.inputs) std::ranges::fill(input, std::byte{0x11});
          call = with_inputs(operation, std::move(call.inputs));
          const SimulationReport report = simulate(calm_plan({2, 2}, call, slots));
          ASSERT_EQ(report.wrong, "");
          const std::uint64_t chunks = stated_chunks(operation);
          const std::uint64_t blocks =
              collective == Collective::kReduceScatter || collective == Collective::kAllGather ? 4
                                                                                               : 1;
          const bool floats = reduces(collective) && is_scaled(type);
          const std::uint64_t leading =
              floats ? std::min<std::uint64_t>(slots, blocks * chunks) : 0;
          for (unsigned member = 0; member < 4; ++member) {
            const WorkerCounts& counts = report.counts[member];
            const StatedCounts expected = stated(operation, 4, member);
            EXPECT_EQ(counts.with_values, expected.sent);
            EXPECT_EQ(counts.results_with_values, expected.received);
            EXPECT_EQ(counts.with_values + counts.without_values, blocks * chunks + leading);
            EXPECT_EQ(counts.results_with_values + counts.results_without_values,
                      blocks * chunks + leading);
            EXPECT_EQ(counts.sent_again, 0U);
          }
        }
}

// In simulated time, so the numbers are always the same.
TEST(SwitchJobs, LoseLittleTimeWhereFewPacketsAreLost) {
  std::mt19937_64 random(6);
  const Operation operation{.type = DataType::kInt32, .count = 500 * kChunkBytes / 4};
  SimulationPlan plan = calm_plan({8}, case_of(operation, random, 8), 28);
  const SimulationReport whole = simulate(plan);
  plan.faults.loss = 10;  // of 1000
  const SimulationReport lossy = simulate(plan);
  EXPECT_EQ(lossy.wrong, "");
  // One packet in 7 chunks is lost. Then up to 8 workers send again.
  EXPECT_LT(lossy.counts[0].sent_again, 500U / 4);
  EXPECT_LT(lossy.duration, 8 * whole.duration);
  std::printf("%.2f ms, %.2f ms with loss\n", static_cast<double>(whole.duration.count()) / 1e6,
              static_cast<double>(lossy.duration.count()) / 1e6);
}

TEST(SwitchJobs, AreRightWithAsManyWorkersAsATreeTakesInOneSwitch) {
  std::mt19937_64 random(4);
  const Operation operation{.type = DataType::kFloat32, .count = 3000};
  const CallCase call = case_of(operation, random, 32);
  SimulationPlan plan = calm_plan({32}, call, 8);
  plan.faults.loss = 20;
  EXPECT_EQ(simulate(plan).wrong, "");
}

TEST(SwitchJobs, AreRightWithMoreWorkersThanOneSwitchTakes) {
  std::mt19937_64 random(5);
  for (const DataType type : {DataType::kFloat32, DataType::kUint32}) {
    const Operation operation{.type = type, .count = 2000};
    const CallCase call = case_of(operation, random, 5 * 32);
    SimulationPlan plan = calm_plan(std::vector<unsigned>(5, 32), call, 8);
    plan.faults.loss = 20;
    EXPECT_EQ(simulate(plan).wrong, "");
  }
}

}  // namespace
}  // namespace tutti::in_network
