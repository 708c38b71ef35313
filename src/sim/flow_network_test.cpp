#include "src/sim/flow_network.hpp"

#include <algorithm>
#include <random>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Path = std::vector<LinkId>;
using End = std::pair<Time, std::uint32_t>;

/// Runs until all flows have ended; when each did.
std::vector<End> run_out(FlowNetwork& network) {
  std::vector<End> ends;
  for (Time now = network.next_end(); now != kNever; now = network.next_end()) {
    std::vector<std::uint32_t> names;
    network.end_flows(now, names);
    for (const std::uint32_t name : names) ends.emplace_back(now, name);
    network.settle(now);
  }
  return ends;
}

TEST(FlowNetwork, CarriesALoneFlowAtTheRateOfItsNarrowestLink) {
  FlowNetwork network({2, 0.5, 4});
  const Path path = {0, 1, 2};
  network.start(path, 100, 7, 0);
  network.settle(0);
  EXPECT_THAT(run_out(network), ElementsAre(End{200, 7}));
}

TEST(FlowNetwork, SlowsAFlowDownWhileAnotherIsOnItsLink) {
  FlowNetwork network({1});
  const Path path = {0};
  network.start(path, 100, 1, 0);
  network.settle(0);
  network.start(path, 20, 2, 40);  // 60 bytes of the first are left
  network.settle(40);
  EXPECT_THAT(run_out(network), ElementsAre(End{80, 2}, End{120, 1}));
}

TEST(FlowNetwork, EndsAllFlowsOfOneMomentAtOnce) {
  FlowNetwork network({1});
  const Path path = {0};
  for (const std::uint32_t name : {3U, 1U, 2U}) network.start(path, 10, name, 0);
  network.settle(0);
  EXPECT_THAT(run_out(network), ElementsAre(End{30, 3}, End{30, 1}, End{30, 2}));
}

TEST(FlowNetwork, CountsTheBytesAndTheBusyTimeOfEachLink) {
  FlowNetwork network({1, 1, 1});
  const Path both = {0, 1};
  const Path second = {1};
  network.start(both, 50, 1, 10);
  network.settle(10);
  std::vector<std::uint32_t> names;
  network.end_flows(60, names);
  network.settle(60);
  network.start(second, 30, 2, 100);
  network.settle(100);
  run_out(network);
  EXPECT_EQ(network.loads()[0].bytes, 50U);
  EXPECT_EQ(network.loads()[0].busy, 50);
  EXPECT_EQ(network.loads()[1].bytes, 80U);
  EXPECT_EQ(network.loads()[1].busy, 80);
  EXPECT_EQ(network.loads()[2].bytes, 0U);
}

TEST(FlowNetwork, HasNoEndAheadWhereNothingFlows) {
  FlowNetwork network({1});
  EXPECT_EQ(network.next_end(), kNever);
  EXPECT_THAT(run_out(network), IsEmpty());
}

class RandomTraffic : public testing::TestWithParam<unsigned> {};

TEST_P(RandomTraffic, KeepsEachLinkBusyForAsLongAsItsBytesNeedAtLeast) {
  SCOPED_TRACE(testing::Message() << "seed " << GetParam());
  std::mt19937 random(GetParam());
  const std::vector<double> capacities = {1, 2, 0.25, 3, 0.5};
  std::vector<Path> paths;
  for (LinkId a = 0; a < capacities.size(); ++a)
    for (LinkId b = 0; b < capacities.size(); ++b)
      if (a != b) paths.push_back({a, b});
  FlowNetwork network(capacities);
  std::vector<std::uint64_t> carried(capacities.size(), 0);
  std::size_t ended = 0;
  Time now = 0;
  constexpr std::uint32_t kFlows = 200;
  std::vector<std::uint32_t> names;
  for (std::uint32_t name = 0; name < kFlows; ++name) {
    const Time next = now + static_cast<Time>(random() % 50);
    for (Time end = network.next_end(); end <= next; end = network.next_end()) {
      network.end_flows(end, names);
      network.settle(end);
    }
    now = next;
    const Path& path = paths[random() % paths.size()];
    const std::uint64_t bytes = 1 + random() % 100;
    for (const LinkId link : path) carried[link] += bytes;
    network.start(path, bytes, name, now);
    network.settle(now);
  }
  ended = names.size() + run_out(network).size();
  EXPECT_EQ(ended, kFlows);
  for (LinkId link = 0; link < capacities.size(); ++link) {
    EXPECT_EQ(network.loads()[link].bytes, carried[link]);
    EXPECT_GE(static_cast<double>(network.loads()[link].busy) * capacities[link],
              static_cast<double>(carried[link]) * (1 - 1e-9));
  }
}

/// When each flow of some lanes ended, if each lane's flows follow one another at once. A lane's
/// flows take `copies` of its path in turn.
std::vector<End> stream(unsigned seed, std::size_t copies) {
  std::mt19937 random(seed);
  FlowNetwork network({1, 2, 0.25, 3, 0.5});
  constexpr std::uint32_t kLanes = 8;
  constexpr std::uint32_t kFlowsOfALane = 30;
  std::vector<std::vector<Path>> paths;
  std::vector<std::uint64_t> bytes;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    const auto first = static_cast<LinkId>(random() % 5);
    paths.emplace_back(copies, Path{first, (first + 1 + static_cast<LinkId>(random() % 4)) % 5});
    bytes.push_back(1'000'000 + random() % 100 * 10'000);
  }
  std::vector<std::uint32_t> started(kLanes, 0);
  const auto start = [&](std::uint32_t lane, Time now) {
    if (started[lane] == kFlowsOfALane) return;
    const std::uint32_t count = started[lane]++;
    network.start(paths[lane][count % copies], bytes[lane], count * kLanes + lane, now);
  };
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) start(lane, 0);
  network.settle(0);
  std::vector<End> ends;
  std::vector<std::uint32_t> names;
  for (Time now = network.next_end(); now != kNever; now = network.next_end()) {
    names.clear();
    network.end_flows(now, names);
    for (const std::uint32_t name : names) {
      ends.emplace_back(now, name);
      start(name % kLanes, now);
    }
    network.settle(now);
  }
  std::ranges::sort(ends, {}, &End::second);
  return ends;
}

TEST_P(RandomTraffic, EndsAtTheSameTimesWhetherFlowsTakePlacesOrNewShares) {
  SCOPED_TRACE(testing::Message() << "seed " << GetParam());
  const std::vector<End> with_places = stream(GetParam(), 1);
  const std::vector<End> with_new_shares = stream(GetParam(), 2);
  ASSERT_EQ(with_places.size(), with_new_shares.size());
  for (std::size_t i = 0; i < with_places.size(); ++i) {
    EXPECT_EQ(with_places[i].second, with_new_shares[i].second);
    EXPECT_NEAR(static_cast<double>(with_places[i].first),
                static_cast<double>(with_new_shares[i].first), 100)
        << "more than rounding, of times of millions";
  }
}

TEST(FlowNetwork, KeepsALinkBusyWhereOneFlowFollowsAnother) {
  FlowNetwork network({1});
  const Path path = {0};
  network.start(path, 50, 1, 10);
  network.settle(10);
  std::vector<std::uint32_t> names;
  network.end_flows(60, names);
  network.start(path, 30, 2, 60);
  network.settle(60);
  EXPECT_THAT(run_out(network), ElementsAre(End{90, 2}));
  EXPECT_EQ(network.loads()[0].bytes, 80U);
  EXPECT_EQ(network.loads()[0].busy, 80);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomTraffic, testing::Range(0U, 10U));

}  // namespace
}  // namespace tutti::sim
