// Machines whose network adds and copies, from their names to tables and pictures.
#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"
#include "tools/program/started.hpp"
#include "tools/sim/report.hpp"

namespace tutti::simtool {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

Machine machine_on(const std::string& topology) {
  MachineOptions options;
  options.topology = topology;
  auto machine = make_machine(options);
  EXPECT_TRUE(machine) << machine.error().what;
  return *std::move(machine);
}

Plan all_reduce_on(const Machine& machine, std::size_t bytes,
                   const std::string& algorithm = "in_network") {
  Plan plan;
  plan.request = {
      .collective = Collective::kAllReduce, .ranks = machine.ranks(), .layout = machine.layout};
  plan.sizes = {bytes};
  plan.algorithms = {algorithm};
  return plan;
}

Point point_on(const std::string& topology, std::size_t bytes,
               const std::string& algorithm = "in_network") {
  Machine machine = machine_on(topology);
  const auto points = run(all_reduce_on(machine, bytes, algorithm), machine);
  EXPECT_TRUE(points) << points.error().what;
  return points ? points->front() : Point{};
}

constexpr std::size_t kMillion = 1'000'000, kBillion = 1'000'000'000;

TEST(InNetworkMachines, RunTheAlgorithmsForWhichTheyHaveTrees) {
  const auto names = [](const std::string& topology) {
    const Machine machine = machine_on(topology);
    return algorithms_for(machine, all_reduce_on(machine, kMillion).request);
  };
  EXPECT_THAT(names("gpu:2x4"), Not(Contains(HasSubstr("in_network"))));
  EXPECT_THAT(names("gpu:1x8,nvls=1"), Contains("in_network"));
  EXPECT_THAT(names("gpu:2x4,sharp=4"),
              IsSupersetOf({"in_network", "in_network_rails", "in_network_chains"}));
  EXPECT_THAT(names("gpu:2x4,sharp=1"), Contains("in_network_rails")) << "a leaf for each rail";
  EXPECT_THAT(names("gpu:2x4,sharp=1,fabric=switch"), Not(Contains("in_network_rails")));
  EXPECT_THAT(names("gpu:2x4,sharp=4,nics=1"), Not(Contains("in_network"))) << "ranks share a NIC";
  EXPECT_THAT(names("gpu:2x4,sharp=4,nics=1"), Contains("in_network_chains"));
  EXPECT_THAT(names("tofino:8"), Contains("in_network"));
}

TEST(InNetworkMachines, ReachTheirBoundWhereTheNetworkStreams) {
  // A NIC of 50 GB/s each behind PCI of 48, all in one tree.
  const Point point = point_on("gpu:2x4,sharp=4", kBillion);
  EXPECT_NEAR(point.outcome.time_us, kBillion / 48e3, 10);
  ASSERT_TRUE(point.bound);
  EXPECT_EQ(point.bound->reason.substr(0, 5), "links") << point.bound->reason;
  EXPECT_LE(point.bound->us, point.outcome.time_us);
}

TEST(InNetworkMachines, OnRailsReachTheBandwidthOfAllNicsOfAHost) {
  // 4 NICs of 50 GB/s a host; inside, NVLink is nine times as fast as a NIC.
  const Point point = point_on("gpu:4x4,sharp=4,nvlink=450", kBillion, "in_network_rails");
  ASSERT_TRUE(point.bound);
  EXPECT_GE(point.outcome.time_us, kBillion / 200e3);
  EXPECT_GE(point.efficiency(), 0.5);
  EXPECT_EQ(point.outcome.groups.size(), 4U);
}

TEST(InNetworkMachines, WithSlotsAreAsFastAsTheWindowInARoundTrip) {
  constexpr double kRoundTrip = 2 * (0.15 + 0.25 + 4.5);  // us
  const auto rate = [](const std::string& slots) {
    const Point point = point_on("tofino:8,slots=" + slots, kBillion);
    return kBillion / (point.outcome.time_us - kRoundTrip) / 1e3;
  };
  EXPECT_NEAR(rate("128"), 12.5, 1e-3);
  EXPECT_NEAR(rate("64"), 64 * 1024 / kRoundTrip / 1e3, 1e-3);
  EXPECT_NEAR(rate("32"), 32 * 1024 / kRoundTrip / 1e3, 1e-3);
}

TEST(InNetworkMachines, OfNvswitchesPassDataOnceAndAnEighth) {
  const Point point = point_on("gpu:1x8,nvls=1", kBillion);
  EXPECT_NEAR(point.outcome.time_us, kBillion * (1 + 1.0 / 8) / 450e3, 5);
}

TEST(InNetworkMachines, HaveTreesOnPresets) {
  for (const std::string topology : {"dgx-h100", "gb200-nvl72", "4x dgx-h100 over sharp-rails",
                                     "4x dgx-a100 over sharp-fat-tree",
                                     "80x dgx-h100 over sharp-rails", "16x cpu-2s over tofino"}) {
    const Machine machine = machine_on(topology);
    const Plan plan = all_reduce_on(machine, kMillion);
    EXPECT_THAT(algorithms_for(machine, plan.request), Contains(HasSubstr("in_network")))
        << topology;
  }
}

TEST(InNetworkMachines, NameTheSumsWhereTheyAreTheLimit) {
  Machine machine = machine_on("tofino:4,slots=32");
  const Plan plan = all_reduce_on(machine, kBillion);
  const auto points = run(plan, machine);
  ASSERT_TRUE(points) << points.error().what;
  EXPECT_THAT(LiveTable(plan, machine).row(points->front()), HasSubstr("100.0  sums of switch"));
  EXPECT_THAT(json_text(*points, plan, machine), HasSubstr("\"tree\": \"switch\""));
}

TEST(InNetworkMachines, KeepTheirBoundsUnderEveryAlgorithm) {
  for (const std::string topology : {"gpu:2x4,nvls=1,sharp=8", "gpu:2x4,nvls=1", "tofino:5"}) {
    Machine machine = machine_on(topology);
    for (const Collective collective :
         {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
          Collective::kBroadcast, Collective::kReduce}) {
      Plan plan = all_reduce_on(machine, 1000);
      plan.request.collective = collective;
      plan.sizes = {1000, 1 << 24};
      plan.algorithms = algorithms_for(machine, plan.request);
      std::erase(plan.algorithms, kForest);
      const auto points = run(plan, machine);
      EXPECT_TRUE(points) << topology << ": " << points.error().what;
    }
  }
}

TEST(InNetworkMachines, AreAskedForWhereNothingAdds) {
  const Machine machine = machine_on("gpu:2x4");
  const auto schedule =
      schedule_for("in_network", machine, all_reduce_on(machine, kMillion).request);
  ASSERT_FALSE(schedule);
  EXPECT_EQ(schedule.error().code, Code::kUnsupported);
  EXPECT_THAT(schedule.error().what, HasSubstr("name a network that adds: --in-network"));
}

TEST(InNetworkProgram, TakesInNetworkAlgorithmsAmongAllButNotWithPorts) {
  const auto run = [](const std::string& options) {
    return tools::run_shell(
        fmt::format("{} all_reduce --sizes 4K --csv - {}", TUTTI_SIM_PROGRAM, options));
  };
  EXPECT_THAT(run("--uniform 4 --in-network").output, HasSubstr("4096,in_network,"));
  EXPECT_THAT(run("--uniform 4").output, Not(HasSubstr("in_network,")));
  EXPECT_THAT(run("--uniform 4 --in-network --ports 1").output, Not(HasSubstr("in_network,")));
  EXPECT_THAT(run("--two-level 2x2 --inner-in-network --algo in_network").output,
              HasSubstr("adds nothing"));
  EXPECT_THAT(run("--two-level 2x2 --in-network --algo in_network_rails").output,
              HasSubstr("4096,in_network_rails,"));
  EXPECT_THAT(run("--uniform 4 --inner-in-network").output, HasSubstr("--inner-in-network"));
  EXPECT_THAT(run("--topology gpu:2x2 --in-network").output, HasSubstr("excludes"));
}

TEST(InNetworkPictures, ShowTheNetworkBesideTheRanks) {
  Machine machine = machine_on("gpu:2x2,sharp=2");
  const auto traced = trace(all_reduce_on(machine, kMillion, "in_network_rails"), machine);
  ASSERT_TRUE(traced) << traced.error().what;
  const auto timeline = timeline_svg(*traced, machine), heat = heat_svg(*traced, machine);
  ASSERT_TRUE(timeline && heat);
  EXPECT_THAT(*timeline, HasSubstr("→ network"));
  EXPECT_THAT(*timeline, HasSubstr("← network"));
  EXPECT_THAT(*timeline, HasSubstr("network adds"));
  EXPECT_THAT(*heat, HasSubstr(">net</text>"));
}

}  // namespace
}  // namespace tutti::simtool
