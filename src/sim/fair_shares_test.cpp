#include "src/sim/fair_shares.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::sim {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;
using Path = std::vector<LinkId>;

TEST(MaxMinFairness, GivesTwoFlowsOnOneLinkHalfEach) {
  FairShares shares({10});
  const Path path = {0};
  const FlowId first = shares.add(path);
  const FlowId second = shares.add(path);
  EXPECT_THAT(shares.update(), UnorderedElementsAre(first, second));
  EXPECT_EQ(shares.rate(first), 5);
  EXPECT_EQ(shares.rate(second), 5);
  shares.remove(first);
  EXPECT_THAT(shares.update(), ElementsAre(second));
  EXPECT_EQ(shares.rate(second), 10);
}

TEST(MaxMinFairness, LeavesWhatAFlowCannotUseToTheOthers) {
  FairShares shares({10, 2});
  const Path narrow = {0, 1};
  const Path wide = {0};
  const FlowId held = shares.add(narrow);
  const FlowId free = shares.add(wide);
  shares.update();
  EXPECT_EQ(shares.rate(held), 2);
  EXPECT_EQ(shares.rate(free), 8);
}

TEST(MaxMinFairness, DoesNotTouchFlowsThatShareNoLinkWithAChange) {
  FairShares shares({10, 10});
  const Path here = {0};
  const Path there = {1};
  const FlowId first = shares.add(here);
  const FlowId other = shares.add(there);
  shares.update();
  const FlowId second = shares.add(here);
  EXPECT_THAT(shares.update(), UnorderedElementsAre(first, second));
  EXPECT_EQ(shares.rate(other), 10);
}

/// Progressive filling over everything, as the books write it: one bottleneck at a time.
std::vector<double> by_the_book(const std::vector<double>& capacities,
                                const std::vector<Path>& paths) {
  std::vector<double> rates(paths.size(), -1);
  for (std::size_t closed = 0; closed < paths.size();) {
    double share = std::numeric_limits<double>::infinity();
    LinkId bottleneck = 0;
    for (LinkId link = 0; link < capacities.size(); ++link) {
      double left = capacities[link];
      int open = 0;
      for (std::size_t flow = 0; flow < paths.size(); ++flow) {
        if (std::count(paths[flow].begin(), paths[flow].end(), link) == 0) continue;
        if (rates[flow] < 0) ++open;
        left -= std::max(0.0, rates[flow]);
      }
      if (open == 0 || left / open >= share) continue;
      share = left / open;
      bottleneck = link;
    }
    for (std::size_t flow = 0; flow < paths.size(); ++flow) {
      if (rates[flow] >= 0) continue;
      if (std::count(paths[flow].begin(), paths[flow].end(), bottleneck) == 0) continue;
      rates[flow] = share;
      ++closed;
    }
  }
  return rates;
}

class RandomNetwork : public testing::TestWithParam<unsigned> {};

TEST_P(RandomNetwork, HasTheRatesOfProgressiveFillingAfterEveryChange) {
  SCOPED_TRACE(testing::Message() << "seed " << GetParam());
  std::mt19937 random(GetParam());
  const auto below = [&](std::size_t n) { return random() % n; };
  std::vector<double> capacities(1 + below(12));
  for (double& capacity : capacities) capacity = 1.0 + static_cast<double>(below(8));
  FairShares shares(capacities);
  std::map<FlowId, Path> flows;
  for (int change = 0; change < 60; ++change) {
    if (flows.empty() || below(5) < 3) {
      Path path(capacities.size());
      for (LinkId link = 0; link < path.size(); ++link) path[link] = link;
      std::shuffle(path.begin(), path.end(), random);
      path.resize(1 + below(std::min<std::size_t>(4, path.size())));
      Path kept = path;
      const FlowId id = shares.add(kept);  // moving a vector leaves its elements where they are
      flows[id] = std::move(kept);
    } else {
      const auto victim = std::next(flows.begin(), static_cast<long>(below(flows.size())));
      shares.remove(victim->first);
      flows.erase(victim);
    }
    if (below(3) == 0) continue;  // several changes, one update
    shares.update();
    std::vector<Path> paths;
    for (const auto& [id, path] : flows) paths.push_back(path);
    const std::vector<double> expected = by_the_book(capacities, paths);
    std::size_t next = 0;
    for (const auto& [id, path] : flows)
      EXPECT_NEAR(shares.rate(id), expected[next++], 1e-9) << "flow " << id;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomNetwork, testing::Range(0U, 40U));

}  // namespace
}  // namespace tutti::sim
