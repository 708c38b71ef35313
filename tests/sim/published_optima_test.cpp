// What is published about synthesised schedules, reproduced: the optima of machines are reached by
// the forest and beaten by nothing, and TE-CCL's finish times are met.
#include <algorithm>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/sim/published_machines.hpp"
#include "tools/sim/run.hpp"

namespace tutti::sim {
namespace {

using simtool::kForest;
using simtool::Machine;

constexpr std::size_t kGigabyte = 1'000'000'000;

simtool::Plan plan_of(const Machine& machine, Collective collective, std::size_t bytes) {
  simtool::Plan plan;
  plan.request = {.collective = collective, .ranks = machine.ranks(), .layout = machine.layout};
  plan.algorithms = {std::string(kForest)};
  plan.sizes = {bytes};
  return plan;
}

double optimum(const Published& published, Collective collective) {
  return published.all_gather * (collective == Collective::kAllReduce ? 0.5 : 1);
}

/// An all-reduce is a reduce-scatter and an all-gather. So where a simulation takes half a minute,
/// either these two or that one are tested.
std::vector<std::pair<Published, Collective>> collectives_of_machines() {
  std::vector<std::pair<Published, Collective>> all;
  for (const Published& each : published()) {
    const std::string_view name = each.name;
    const bool parts = name != "torus_8x8" && name != "torus_4x4x4" && name != "h100_4x8";
    const bool whole = name != "mi250_2x16_16";
    if (parts) all.emplace_back(each, Collective::kAllGather);
    if (parts) all.emplace_back(each, Collective::kReduceScatter);
    if (whole) all.emplace_back(each, Collective::kAllReduce);
  }
  return all;
}

class PublishedOptimum : public testing::TestWithParam<std::pair<Published, Collective>> {
 protected:
  /// Microseconds that the forest takes for so many gigabytes, in slices of which a chunk of one
  /// gigabyte has `slices`.
  static double time_of(const Machine& machine, const ir::Request& request,
                        const simtool::Routed& forest, std::size_t gigabytes, std::size_t slices) {
    const Amount one = simtool::amount_for(request, kGigabyte);
    const std::size_t chunk = one.count * one.element_bytes / forest.schedule.chunks_per_block;
    RoutedFabric fabric(*machine.fabric, forest.paths);
    const auto outcome =
        simulate(forest.schedule, simtool::amount_for(request, gigabytes * kGigabyte), fabric, {},
                 {.slice_bytes = chunk / slices});
    EXPECT_TRUE(outcome) << outcome.error().what;
    return outcome ? outcome->time_us : 0;
  }
  static double bandwidth(std::size_t bytes, double us) {
    return static_cast<double>(bytes) / us / 1e3;
  }
  struct Target {
    std::size_t slices = 160;  ///< of a chunk; the optimum is reached with endless ones
    bool streaming = false;    ///< what counts is a second gigabyte that follows the first
  };
  /// Long ways of many hops fill late: more slices. Where the trees are so many and so high that a
  /// test has no time for them, the time that more data take says how fast they stream once the
  /// trees are full.
  static Target target() {
    const auto& [published, collective] = GetParam();
    const std::string_view name = published.name;
    const bool all_reduce = collective == Collective::kAllReduce;
    if (all_reduce && (name == "h100_4x8" || name == "torus_8x8"))
      return {.slices = 8, .streaming = true};
    if (name.starts_with("mi250_2"))
      return {.slices = all_reduce ? 12U : name == "mi250_2x16_16" ? 16U : 32U, .streaming = true};
    if (name.starts_with("mi250_1") || name.starts_with("dgx2")) return {.slices = 512};
    return {};
  }
};

TEST_P(PublishedOptimum, IsReachedByTheForest) {
  const auto& [published, collective] = GetParam();
  const Target target = PublishedOptimum::target();
  const Machine machine = published.machine();
  const ir::Request request = plan_of(machine, collective, kGigabyte).request;
  const auto forest = simtool::schedule_for(std::string(kForest), machine, request);
  ASSERT_TRUE(forest) << forest.error().what;
  const auto time = [&](std::size_t gigabytes) {
    return time_of(machine, request, *forest, gigabytes, target.slices);
  };
  const double first = time(1);
  EXPECT_LE(bandwidth(kGigabyte, first), 1.0002 * optimum(published, collective))
      << "the published one has five digits";
  const double counts = target.streaming ? time(2) - first : first;
  EXPECT_GE(bandwidth(kGigabyte, counts), 0.99 * optimum(published, collective));
}

INSTANTIATE_TEST_SUITE_P(Machines, PublishedOptimum, testing::ValuesIn(collectives_of_machines()),
                         [](const auto& info) {
                           return fmt::format("{}_{}", name_of(info.param.second),
                                              info.param.first.name);
                         });

class PublishedMachine : public testing::TestWithParam<Published> {};

TEST_P(PublishedMachine, HasNoAlgorithmThatBeatsTheOptimum) {
  for (const Collective collective :
       {Collective::kAllGather, Collective::kReduceScatter, Collective::kAllReduce}) {
    Machine machine = GetParam().machine();
    simtool::Plan plan = plan_of(machine, collective, kGigabyte);
    for (const std::string& algorithm : simtool::algorithms_for(machine, plan.request)) {
      if (algorithm == kForest) continue;
      plan.algorithms = {algorithm};
      const auto points = simtool::run(plan, machine);
      if (!points) {  // GPUs of a mesh pass nothing on for others, and not every pair is joined
        EXPECT_NE(points.error().what.find("nothing joins"), std::string::npos)
            << algorithm << ": " << points.error().what;
        continue;
      }
      EXPECT_LE(points->front().outcome.algorithm_bandwidth,
                1.0002 * optimum(GetParam(), collective))
          << algorithm << " " << name_of(collective);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, PublishedMachine, testing::ValuesIn(published()),
                         [](const auto& info) { return std::string(info.param.name); });

/// Bytes of an all-gather.
class AllGatherOfTwoDgx2 : public testing::TestWithParam<std::size_t> {};

TEST_P(AllGatherOfTwoDgx2, ComesNearTheOptimumInSpiteOfItsLatency) {
  constexpr double kOptimum = 129.03;
  Machine machine = dgx2();
  const auto points = simtool::run(plan_of(machine, Collective::kAllGather, GetParam()), machine);
  ASSERT_TRUE(points) << points.error().what;
  EXPECT_GE(points->front().outcome.algorithm_bandwidth, 0.99 * kOptimum);
  EXPECT_LE(points->front().outcome.algorithm_bandwidth, 1.0002 * kOptimum);
}

INSTANTIATE_TEST_SUITE_P(TeCcl, AllGatherOfTwoDgx2,
                         testing::Values(16'000'000, 64'000'000, 256'000'000),
                         [](const auto& info) { return std::to_string(info.param); });

/// A finish time of TE-CCL's released schedules: all-gather, decimal sizes of the whole output.
struct Finish {
  std::size_t bytes;
  double us;
  friend std::ostream& operator<<(std::ostream& out, const Finish& finish) {
    return out << finish.bytes << " bytes";
  }
};

class AllGatherOfTwoNdv2 : public testing::TestWithParam<Finish> {};

TEST_P(AllGatherOfTwoNdv2, IsNotSlowerThanTheScheduleOfTeCcl) {
  Machine machine = ndv2(2);
  const auto points =
      simtool::run(plan_of(machine, Collective::kAllGather, GetParam().bytes), machine);
  ASSERT_TRUE(points) << points.error().what;  // an error where the bound is beaten
  EXPECT_LE(points->front().outcome.time_us, GetParam().us);
  EXPECT_GE(points->front().efficiency(), 0.5);
}

INSTANTIATE_TEST_SUITE_P(TeCcl, AllGatherOfTwoNdv2,
                         testing::Values(Finish{1000, 4.137}, Finish{16'000, 4.44},
                                         Finish{64'000, 6.08}, Finish{256'000, 14.72},
                                         Finish{1'000'000, 48.75}, Finish{4'000'000, 190},
                                         Finish{16'000'000, 700}, Finish{kGigabyte, 43750}),
                         [](const auto& info) { return std::to_string(info.param.bytes); });

}  // namespace
}  // namespace tutti::sim
