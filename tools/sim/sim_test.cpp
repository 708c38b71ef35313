// Predictions of `tutti sim`, held to published optima; its bounds; and the program itself.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "algorithms/algorithms.hpp"
#include "tests/sim/published_machines.hpp"
#include "tools/program/started.hpp"
#include "tools/sim/limit.hpp"
#include "tools/sim/report.hpp"
#include "tools/sim/run.hpp"

namespace tutti::simtool {
namespace {

using sim::dgx1;
using sim::Draft;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using topo::NodeId;
using topo::NodeKind;

constexpr std::size_t kGigabyte = 1'000'000'000;

/// Boxes of GPUs on an NVSwitch; with several, each GPU has `nic` GB/s to the switch of its rail.
Machine boxes(int count, int gpus, double nvlink, double nic) {
  Draft draft;
  std::vector<NodeId> rails;
  for (int i = 0; i < gpus && count > 1; ++i)
    rails.push_back(draft.node(NodeKind::kSwitch, topo::kNoHost));
  for (int box = 0; box < count; ++box) {
    const topo::HostId host = draft.host();
    const NodeId nvswitch = draft.node(NodeKind::kNvswitch, host);
    for (int i = 0; i < gpus; ++i) {
      const NodeId gpu = draft.node(NodeKind::kGpu, host);
      draft.join(gpu, nvswitch, nvlink);
      if (count > 1) draft.join(gpu, rails[static_cast<std::size_t>(i)], nic);
    }
  }
  return draft.finish("boxes");
}

/// Two boxes of 16 GPUs, 125 GB/s to their switch; every other one has 12.5 GB/s to its fellow.
Machine dgx2() {
  Draft draft;
  std::vector<NodeId> gpus;
  for (int box = 0; box < 2; ++box) {
    const topo::HostId host = draft.host();
    const NodeId nvswitch = draft.node(NodeKind::kNvswitch, host);
    for (int i = 0; i < 16; ++i) {
      gpus.push_back(draft.node(NodeKind::kGpu, host));
      draft.join(gpus.back(), nvswitch, 125);
    }
  }
  for (std::size_t i = 0; i < 16; i += 2) draft.join(gpus[i], gpus[i + 16], 12.5);
  return draft.finish("dgx2");
}

/// Links of 1 GB/s between neighbours; a ring where x is 1.
Machine torus(NodeId x, NodeId y) {
  Draft draft;
  const topo::HostId host = draft.host();
  for (NodeId i = 0; i < x * y; ++i) draft.node(NodeKind::kGpu, host);
  for (NodeId i = 0; i < x * y; ++i) {
    const NodeId row = i / y;
    const NodeId column = i % y;
    draft.join(i, row * y + (column + 1) % y, 1);
    if (x > 1) draft.join(i, (row + 1) % x * y + column, 1);
  }
  return draft.finish("torus");
}

Plan plan_of(const Machine& machine, Collective collective, std::vector<std::string> algorithms,
             std::size_t bytes = kGigabyte) {
  Plan plan;
  plan.request = {.collective = collective, .ranks = machine.ranks(), .layout = machine.layout};
  plan.algorithms = std::move(algorithms);
  plan.sizes = {bytes};
  return plan;
}

struct Optimum {
  std::string name;
  Machine (*machine)();
  double all_gather;  ///< GB/s of algorithm bandwidth; an all-reduce has half of it
};

/// From the literature on ForestColl (arXiv 2402.06787) and TE-CCL (SIGCOMM 2024), or n B / (n-1).
const Optimum kOptima[] = {
    {"dgx1", dgx1, 171.43},
    {"ring_8", [] { return torus(1, 8); }, 2.286},
    {"torus_4x4", [] { return torus(4, 4); }, 4.267},
    {"torus_8x8", [] { return torus(8, 8); }, 4.063},
    {"a100_1x8", [] { return boxes(1, 8, 300, 0); }, 342.86},
    {"a100_2x8", [] { return boxes(2, 8, 300, 25); }, 346.67},
    {"a100_4x8", [] { return boxes(4, 8, 300, 25); }, 266.67},
    {"h100_2x8", [] { return boxes(2, 8, 450, 50); }, 533.33},
    {"h100_4x8", [] { return boxes(4, 8, 450, 50); }, 516.13},
    {"h800_2x8", [] { return boxes(2, 8, 200, 50); }, 266.67},
    {"dgx2_2x16", dgx2, 129.03},
};

TEST(Bounds, AreThePublishedOptimaOfMachines) {
  for (const Optimum& optimum : kOptima) {
    const Machine machine = optimum.machine();
    for (const auto& [collective, share] :
         {std::pair(Collective::kAllGather, 1.0), std::pair(Collective::kReduceScatter, 1.0),
          std::pair(Collective::kAllReduce, 0.5)}) {
      const Bounds bounds(machine, {.collective = collective, .ranks = machine.ranks()}, {});
      // Its ranks have links of different speeds, for which the bound of all ranks is no optimum.
      if (optimum.name == "dgx2_2x16" && collective == Collective::kAllReduce) continue;
      const double bandwidth = kGigabyte / bounds.at(kGigabyte).us / 1e3;
      EXPECT_NEAR(bandwidth, optimum.all_gather * share, optimum.all_gather * 2e-4)
          << optimum.name << " " << name_of(collective);
    }
  }
}

TEST(Bounds, OfRootedCollectivesAreTheLinksOfTheRoot) {
  const Machine machine = torus(1, 8);
  const auto at = [&](Collective collective) {
    return Bounds(machine, {.collective = collective, .ranks = 8}, {}).at(8e6);
  };
  EXPECT_NEAR(at(Collective::kBroadcast).us, 4000, 1e-3);
  EXPECT_NEAR(at(Collective::kReduce).us, 4000, 1e-3);
  EXPECT_NEAR(at(Collective::kScatter).us, 3500, 1e-3);
  EXPECT_EQ(at(Collective::kScatter).reason, "links out of b0/n0");
  EXPECT_EQ(at(Collective::kGather).reason, "links into b0/n0");
}

/// Of the forest's simulated all-gather of 1 GB, in GB/s.
double forest_bandwidth(Machine& machine) {
  const auto points =
      run(plan_of(machine, Collective::kAllGather, {std::string(kForest)}), machine);
  EXPECT_TRUE(points) << points.error().what;
  return points ? points->front().outcome.algorithm_bandwidth : 0;
}

TEST(ForestAllGather, ReachesTheOptimumOfMeshesWithinOnePercent) {
  for (const std::string name : {"dgx1", "ring_8", "torus_4x4", "a100_1x8"}) {
    const Optimum& optimum = *std::ranges::find(kOptima, name, &Optimum::name);
    Machine machine = optimum.machine();
    EXPECT_GE(forest_bandwidth(machine), 0.99 * optimum.all_gather) << name;
  }
}

TEST(ForestAllGather, IsBeatenByNoAlgorithmOnMeshes) {
  for (const std::string name : {"dgx1", "ring_8", "torus_4x4", "a100_1x8"}) {
    Machine machine = std::ranges::find(kOptima, name, &Optimum::name)->machine();
    Plan plan = plan_of(machine, Collective::kAllGather, {});
    const double forest = forest_bandwidth(machine);
    for (const std::string& algorithm : algorithms_for(machine, plan.request)) {
      plan.algorithms = {algorithm};
      const auto points = run(plan, machine);
      if (!points) {  // GPUs of a mesh pass nothing on for others, and not every pair is joined
        EXPECT_THAT(points.error().what, HasSubstr("nothing joins"));
        continue;
      }
      EXPECT_LE(points->front().outcome.algorithm_bandwidth, forest * 1.01)
          << name << " " << algorithm;
    }
  }
}

TEST(ForestAllGather, ComesWithinThreePercentOfTheOptimumOfBoxesOnRails) {
  for (const std::string name : {"a100_2x8", "h100_2x8"}) {
    const Optimum& optimum = *std::ranges::find(kOptima, name, &Optimum::name);
    Machine machine = optimum.machine();
    EXPECT_GE(forest_bandwidth(machine), 0.97 * optimum.all_gather) << name;
  }
}

TEST(Run, TakesLongerWhereALinkIsSlowButBeatsNoBound) {
  Machine machine = boxes(1, 8, 300, 0);
  Plan plan = plan_of(machine, Collective::kAllReduce, {}, 1'000'000);
  plan.algorithms = algorithms_for(machine, plan.request);
  const auto healthy = run(plan, machine);
  plan.costs.slow_links = {{0, 4}};
  const auto slow = run(plan, machine);
  ASSERT_TRUE(healthy && slow);
  ASSERT_EQ(healthy->size(), slow->size());
  bool any_slower = false;
  for (std::size_t i = 0; i < slow->size(); ++i)
    any_slower |= (*slow)[i].outcome.time_us > (*healthy)[i].outcome.time_us * 1.5;
  EXPECT_TRUE(any_slower);
}

TEST(MakeMachine, IsThisHostWhereNoneIsNamed) {
  const auto machine = make_machine({});
  ASSERT_TRUE(machine) << machine.error().what;
  EXPECT_EQ(machine->ranks(), ranks_of_this_machine());
  EXPECT_GE(machine->ranks(), 2);
  EXPECT_EQ(machine->assumptions.size(), 1U);
}

TEST(AmountFor, RoundsDownToWholeElementsOfEveryRank) {
  const ir::Request gather = {.collective = Collective::kAllGather, .ranks = 8};
  EXPECT_EQ(amount_for(gather, 100).count, 3U);
  EXPECT_EQ(amount_for(gather, 1).count, 1U);
  EXPECT_EQ(amount_for({.collective = Collective::kAllReduce, .ranks = 8}, 100).count, 25U);
}

TEST(Timeline, RefusesMoreRanksThanCanBeRead) {
  Machine machine = boxes(1, 33, 300, 0);
  const auto traced = trace(plan_of(machine, Collective::kAllGather, {"ring"}, 4096), machine);
  ASSERT_TRUE(traced) << traced.error().what;
  const auto svg = timeline_svg(*traced, machine);
  ASSERT_FALSE(svg);
  EXPECT_THAT(svg.error().what, HasSubstr("33 ranks"));
}

double steps_of(const ir::Algorithm& algorithm, const ir::Request& request) {
  const auto schedule = algorithm.generate(request);
  EXPECT_TRUE(schedule) << schedule.error().what;
  double steps = 0;
  for (const ir::Program& program : schedule->programs)
    steps += static_cast<double>(program.steps.size());
  return steps;
}

TEST(EstimatedSteps, AreCountedOfFewRanksAndCarriedOnToMany) {
  const auto& known = algorithms::all();
  for (const std::string name :
       {"ring", "pairwise", "binomial", "double_binary_tree", "circulant"}) {
    const auto& algorithm = *std::ranges::find(known, name, &ir::Algorithm::name);
    ir::Request request = {.collective = Collective::kAllReduce, .ranks = 600};
    if (!algorithm.supports(request)) request.collective = Collective::kAllToAll;
    if (!algorithm.supports(request)) request.collective = Collective::kBroadcast;
    const double steps = steps_of(algorithm, request);
    EXPECT_NEAR(estimated_steps(algorithm, request), steps, steps / 2) << name;
  }
}

TEST(EstimatedSteps, FollowTheNumberOfNodes) {
  const auto& known = algorithms::all();
  const auto& algorithm = *std::ranges::find(known, "hierarchical_ring", &ir::Algorithm::name);
  const ir::Request request = {
      .collective = Collective::kAllReduce, .ranks = 1024, .layout = ir::Layout::grid({8, 128})};
  const double steps = steps_of(algorithm, request);
  EXPECT_NEAR(estimated_steps(algorithm, request), steps, steps / 2);
}

TEST(Timeline, ColoursSlicesAndHasALegendOfThem) {
  Machine machine = boxes(1, 4, 300, 0);
  Plan plan = plan_of(machine, Collective::kAllGather, {"ring"}, 1 << 20U);
  plan.slice_bytes = 1 << 14U;
  const auto traced = trace(plan, machine);
  ASSERT_TRUE(traced) << traced.error().what;
  const auto svg = timeline_svg(*traced, machine);
  ASSERT_TRUE(svg) << svg.error().what;
  EXPECT_THAT(*svg,
              AllOf(HasSubstr(">slice</text>"), HasSubstr(">1</text>"), HasSubstr(">16</text>"),
                    HasSubstr("fill=\"#481e6e\""), Not(HasSubstr(">receives</text>"))));
}

TEST(Timeline, HasARowOfBarsForSendsAndReceives) {
  Machine machine = boxes(1, 2, 300, 0);
  const auto traced = trace(plan_of(machine, Collective::kAllGather, {"ring"}, 4096), machine);
  ASSERT_TRUE(traced) << traced.error().what;
  const auto svg = timeline_svg(*traced, machine);
  ASSERT_TRUE(svg) << svg.error().what;
  EXPECT_THAT(*svg, HasSubstr("→1"));
  EXPECT_THAT(*svg, HasSubstr("←1"));
}

tools::Outcome sim(const std::string& arguments) {
  return tools::run_shell(TUTTI_SIM_PROGRAM " " + arguments);
}

TEST(Program, PrintsTheWorkedNumbersOfTheAlphaBetaModel) {
  const auto outcome = sim("all_reduce --uniform 12 --ports 1 --sizes 1000 --algo ring,circulant");
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("1000  ring           110.1"));
  EXPECT_THAT(outcome.output, HasSubstr("1000  circulant      40.10"));
}

TEST(Program, PredictsPlainHostsFromACalibration) {
  const auto sim = [](const std::string& arguments) {
    return tools::run_shell(
        fmt::format("{} all_reduce --sizes 16M --algo ring {}", TUTTI_SIM_PROGRAM, arguments));
  };
  const tools::Outcome hosts = sim("--hosts 2x2");
  EXPECT_EQ(hosts.code, 0) << hosts.output;
  EXPECT_THAT(hosts.output, HasSubstr("host 0 to network"));
  EXPECT_THAT(sim("--hosts 2").output, HasSubstr("--hosts '2': write NODESxRANKS"));
  EXPECT_THAT(sim("--hosts 2x2 --step-us 1").output,
              HasSubstr("a calibration says what ranks cost"));
  EXPECT_THAT(sim("--uniform 4 --calibration /nowhere").output, HasSubstr("/nowhere"));
}

TEST(Program, SaysWhatIsWrongWithItsArguments) {
  const auto expect = [](const std::string& arguments, const std::string& words) {
    const auto outcome = sim(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_THAT(outcome.output, HasSubstr(words)) << arguments;
  };
  expect("all_reduce --uniform 4 --two-level 2x2", "give one machine");
  expect("all_reduce --two-level 2y2", "NODESxRANKS");
  expect("all_reduce --topology gpu:0x", "is no file; as a synthetic machine: column 5");
  expect("all_reduce --uniform 4 --algo rnig", "did you mean 'ring'");
  expect("all_reduce --uniform 4 --algo forest", "needs --topology");
  expect("all_reduce --uniform 4 --slow-link 'rank 1 pu=2'", "did you mean 'rank 1 up'");
  expect("all_reduce --uniform 4 --slow-link 'rank 1 up=0.5'", "factor from 1");
  expect("all_reduce --uniform 4 --slow-rank 4=2", "ranks are 0 to 3");
  expect("all_reduce --uniform 4 -r 1", "no such root");
  expect("all_reduce --uniform 4 --timeline /dev/null", "one size and one algorithm");
  expect("all_reduce --uniform 4 --sizes 1K --svg /dev/null", "two sizes");
  expect("all_reduce --uniform 40 --sizes 1K --algo ring --timeline /dev/null", "40 ranks");
  expect("all_reduce --uniform 4 --sizes 0", "0 bytes holds no element");
  expect("all_reduce --uniform 4 -b 1 -e 64", "1 bytes holds no element");
  expect("all_reduce --uniform 4 --sizes 1K -b 1K", "excludes");
  expect("all_reduce --uniform 4 -i 1K -f 2", "excludes");
  expect("all_reduce --uniform 4 --inner-gbs 9", "excludes --inner-gbs");
  expect("all_reduce --topology gpu:1x2 --alpha 9", "excludes");
  expect("all_reduce --inner-gbs 9", "--inner-gbs requires --two-level");
  expect("all_reduce --uniform 4 --slow-rank 1=2", "changes nothing");
  expect("all_reduce --uniform 4 --algo ''", "the value of --algo is empty");
  expect("all_reduce --uniform 4 --csv - --json -", "cannot both go to standard output");
  expect("all_reduce --uniform 4 --csv - --links", "no room for --links");
}

TEST(Program, EndsBeforeTheRunWhereNothingCouldComeOfIt) {
  const auto unwritable = sim("all_reduce --uniform 4 --sizes 1K --csv /nowhere/x.csv");
  EXPECT_EQ(unwritable.code, 5);
  EXPECT_THAT(unwritable.output, Not(HasSubstr("ALGORITHM")));
  const auto large = sim("all_reduce --uniform 1000000 --sizes 1M --algo ring");
  EXPECT_EQ(large.code, 5) << large.output;
  EXPECT_THAT(large.output, AllOf(HasSubstr("ring of 1000000 ranks has about 5.2e+12 steps"),
                                  HasSubstr("take fewer ranks"), Not(HasSubstr("ALGORITHM"))));
  const auto slices = sim("all_reduce --uniform 64 --sizes 1G --algo ring --slice 4");
  EXPECT_EQ(slices.code, 5) << slices.output;
  EXPECT_THAT(slices.output, HasSubstr("take larger slices"));
}

TEST(Program, TakesAFileOfCostsThatIsWrongForWrongData) {
  const auto outcome = sim("all_reduce --uniform 4 --sizes 1K --costs /dev/null");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.output, HasSubstr("is no JSON object"));
}

TEST(Program, PrintsEachRowAsItComes) {
  tools::Started started({TUTTI_SIM_PROGRAM, "all_gather", "--topology", "torus:2x2", "--sizes",
                          "1K,256M", "--algo", "ring,forest"});
  const std::string header = started.read_line();
  for (int i = 0; i < 4; ++i) {
    const std::string row = started.read_line();
    // Every column begins where the header says, whatever comes later.
    EXPECT_EQ(row.find(i % 2 == 0 ? "ring" : "forest"), header.find("ALGORITHM")) << row;
    EXPECT_EQ(row[header.find("BOUND IS SET BY") - 1], ' ') << row;
    EXPECT_NE(row[header.find("BOUND IS SET BY")], ' ') << row;
    EXPECT_NE(row[header.find("BUSIEST LINK")], ' ') << row;
  }
  EXPECT_EQ(started.read_line(), "");
  EXPECT_EQ(started.wait(), 0);
}

TEST(Program, PutsLinksTogetherThatAreAlike) {
  const auto outcome =
      sim("all_reduce --topology gpu:2x4 --sizes 16M --algo hierarchical_ring --links");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("58.6  8 alike: pci -> gpu, as h0/pci0 -> h0/gpu0\n"));
  const auto torus = sim("all_gather --topology torus:4x4 --sizes 16M --algo ring --links");
  EXPECT_THAT(torus.output, HasSubstr("49.8  18 alike: place -> place, as 0.0 -> 1.0\n"));
}

TEST(Program, WritesTheTableAsCsvAndJson) {
  const auto csv = sim("all_gather --uniform 4 --sizes 1M --algo ring --json /dev/null --csv -");
  EXPECT_EQ(csv.code, 0);
  EXPECT_THAT(csv.output, HasSubstr("size,algorithm,time_us"));
  EXPECT_THAT(csv.output, HasSubstr("1048576,ring,"));
  const auto json = sim("all_gather --uniform 4 --sizes 1M --algo ring --json -");
  EXPECT_EQ(json.code, 0);
  EXPECT_THAT(json.output, HasSubstr("\"bound\": \"bandwidth\""));
}

/// Where bytes are all that counts, the time is as much shorter as the format is.
TEST(Program, PredictsCompressedCalls) {
  const auto time_of = [](const std::string& options) {
    const auto run =
        sim("all_gather --uniform 4 --beta-gbs 0.001 --alpha 0 --sizes 1M --algo ring --json - " +
            options);
    EXPECT_EQ(run.code, 0) << run.output;
    return nlohmann::json::parse(run.output)["results"][0]["time_us"].get<double>();
  };
  EXPECT_NEAR(time_of("") / time_of("--compress bf16"), 2, 0.01);
  EXPECT_NEAR(time_of("") / time_of("--compress int4"), 32 / 4.5, 0.1);
  const auto all = sim("all_reduce --two-level 2x3 --sizes 64K --compress int8 --csv -");
  EXPECT_EQ(all.code, 0) << all.output;
  EXPECT_THAT(all.output, HasSubstr("hierarchical_direct"));
  EXPECT_THAT(all.output, Not(HasSubstr("recursive_doubling,")));  // not the same bits on 6
  const auto wrong = sim("all_reduce --uniform 4 --sizes 1K --compress int9");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.output, HasSubstr("did you mean int8"));
}

}  // namespace
}  // namespace tutti::simtool
