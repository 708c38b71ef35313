// Who talks to whom, and how much: the patterns of the literature as seen in the schedules.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"
#include "algorithms/exchange.hpp"
#include "src/base/sanitized.hpp"

namespace tutti::algorithms {
namespace {

using ir::Schedule;
using ir::Step;
using ir::Verb;

/// What one rank sends or receives in one round: sets on several lanes are one message.
struct Message {
  Rank peer = kNoRank;
  std::set<std::uint32_t> chunks;
  friend bool operator==(const Message&, const Message&) = default;
};

std::vector<Message> messages(const Schedule& schedule, Rank rank, Verb verb) {
  std::vector<Message> messages;
  for (const Step& step : schedule.programs[static_cast<std::size_t>(rank)].steps) {
    if (step.verb != verb) continue;
    if (step.lane == 0) messages.push_back({.peer = step.peer, .chunks = {}});
    const ir::ChunkSet& set = verb == Verb::kSend ? step.src : step.dst;
    for (std::uint32_t i = 0; i < set.count; ++i) messages.back().chunks.insert(set.at(i));
  }
  return messages;
}

std::vector<Rank> peers(const std::vector<Message>& messages) {
  std::vector<Rank> peers;
  for (const Message& message : messages) peers.push_back(message.peer);
  return peers;
}

Schedule schedule_of(const ir::Algorithm& algorithm, Collective collective, Rank ranks) {
  auto schedule = algorithm.generate({.collective = collective, .ranks = ranks});
  EXPECT_TRUE(schedule) << schedule.error().what;
  return *std::move(schedule);
}

/// parent -> children, in the order served
using Tree = std::map<Rank, std::vector<Rank>>;

Tree broadcast_tree(const ir::Algorithm& algorithm, Rank ranks) {
  const Schedule schedule = schedule_of(algorithm, Collective::kBroadcast, ranks);
  Tree tree;
  for (Rank rank = 0; rank < ranks; ++rank) {
    const auto children = peers(messages(schedule, rank, Verb::kSend));
    if (!children.empty()) tree[rank] = children;
  }
  return tree;
}

Rank distance_on_ring(Rank a, Rank b, Rank ranks) {
  return std::min(wrap(a - b, ranks), wrap(b - a, ranks));
}

TEST(KNomialTrees, AreThoseOfTheLiteratureAtEightAndSixteenRanks) {
  EXPECT_EQ(broadcast_tree(binomial(), 8), (Tree{{0, {4, 2, 1}}, {2, {3}}, {4, {6, 5}}, {6, {7}}}));
  EXPECT_EQ(broadcast_tree(k_nomial_4(), 16),
            (Tree{{0, {12, 8, 4, 3, 2, 1}}, {4, {7, 6, 5}}, {8, {11, 10, 9}}, {12, {15, 14, 13}}}));
}

TEST(Bine, HasTheTreeOfThePaperAtEightRanks) {
  EXPECT_EQ(broadcast_tree(bine(), 8), (Tree{{0, {3, 7, 1}}, {3, {4, 2}}, {4, {5}}, {7, {6}}}));
}

/// How far all messages of a tree travel together, on a ring.
Rank total_distance(const Tree& tree, Rank ranks) {
  Rank total = 0;
  for (const auto& [parent, children] : tree) {
    for (const Rank child : children) total += distance_on_ring(parent, child, ranks);
  }
  return total;
}

TEST(Bine, TravelsAboutTwoThirdsAsFarAsTheBinomialTree) {
  for (const Rank ranks : {16, 64, 256, 1024}) {
    const Rank near = total_distance(broadcast_tree(bine(), ranks), ranks);
    const Rank far = total_distance(broadcast_tree(binomial(), ranks), ranks);
    EXPECT_LT(3 * near, 2 * far + far / 5) << fmt::format("n={}: {} of {}", ranks, near, far);
  }
}

TEST(Bine, ReachesEveryRankOnceForAnyNumberOfRanks) {
  for (Rank ranks = 2; ranks <= (kSanitized ? 70 : 300); ++ranks) {
    const Tree tree = broadcast_tree(bine(), ranks);
    std::set<Rank> reached = {0};
    for (const auto& [parent, children] : tree) {
      for (const Rank child : children) EXPECT_TRUE(reached.insert(child).second) << ranks;
    }
    EXPECT_EQ(reached.size(), static_cast<std::size_t>(ranks));
  }
}

TEST(Swing, HasThePartnersOfThePaperAtEightRanks) {
  const auto partners = [](Rank rank) {
    std::vector<Rank> all;
    for (std::uint32_t step = 0; step < 3; ++step) {
      all.push_back(wrap(swing_partner(rank, step), 8));
    }
    return all;
  };
  EXPECT_EQ(partners(0), (std::vector<Rank>{1, 7, 3}));
  EXPECT_EQ(partners(1), (std::vector<Rank>{0, 2, 6}));
  EXPECT_EQ(partners(2), (std::vector<Rank>{3, 1, 5}));
  EXPECT_EQ(partners(7), (std::vector<Rank>{6, 0, 4}));
  const Schedule schedule = schedule_of(swing(), Collective::kReduceScatter, 8);
  for (Rank rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(peers(messages(schedule, rank, Verb::kSend)), partners(rank));
  }
}

TEST(Swing, SendsToTheNeighbourFirstAndMostAtSixteenRanks) {
  const Schedule schedule = schedule_of(swing(), Collective::kReduceScatter, 16);
  for (Rank rank = 0; rank < 16; ++rank) {
    std::vector<std::pair<Rank, std::size_t>> sent;  // distance, blocks
    for (const Message& message : messages(schedule, rank, Verb::kSend)) {
      sent.emplace_back(distance_on_ring(rank, message.peer, 16), message.chunks.size());
    }
    EXPECT_EQ(sent, (std::vector<std::pair<Rank, std::size_t>>{{1, 8}, {1, 4}, {3, 2}, {5, 1}}));
  }
}

TEST(Swing, NeedsAtMostTwoSetsAMessageForPowersOfTwo) {
  for (const Rank ranks : {2, 4, 8, 16, 32, 64, 128, 256}) {
    EXPECT_LE(schedule_of(swing(), Collective::kAllGather, ranks).lanes, 2U) << ranks;
  }
}

TEST(SwingPartners, AreEachOthersPartners) {
  for (Rank rank = -9; rank <= 9; ++rank) {
    for (std::uint32_t step = 0; step < 12; ++step) {
      EXPECT_EQ(swing_partner(swing_partner(rank, step), step), rank);
    }
  }
}

TEST(SwingLatency, TakesTheStepsOfThePaperBackwards) {
  const Schedule schedule = schedule_of(swing_latency(), Collective::kAllReduce, 8);
  EXPECT_EQ(peers(messages(schedule, 0, Verb::kSend)), (std::vector<Rank>{3, 7, 1}));
  EXPECT_EQ(peers(messages(schedule, 1, Verb::kSend)), (std::vector<Rank>{6, 2, 0}));
}

TEST(Pat, SendsFewBlocksFarAndManyNearAsInThePaper) {
  using Sent = std::vector<std::pair<Rank, std::size_t>>;  // distance, blocks
  const auto sent = [](Rank ranks, Rank rank) {
    Sent all;
    const Schedule schedule = schedule_of(pat(), Collective::kAllGather, ranks);
    for (const Message& message : messages(schedule, rank, Verb::kSend)) {
      all.emplace_back(wrap(message.peer - rank, ranks), message.chunks.size());
    }
    return all;
  };
  for (const Rank rank : {0, 1, 7, 11}) {
    EXPECT_EQ(sent(16, rank), (Sent{{8, 1}, {4, 2}, {2, 4}, {1, 8}}));
    EXPECT_EQ(sent(12, rank), (Sent{{8, 1}, {4, 1}, {2, 3}, {1, 6}}));
  }
}

TEST(NeighborExchange, MeetsBothNeighboursByTurnsAndGathersPairsFromBothSides) {
  const Schedule schedule = schedule_of(neighbor_exchange(), Collective::kAllGather, 8);
  EXPECT_EQ(messages(schedule, 2, Verb::kRecv),
            (std::vector<Message>{{3, {3}}, {1, {0, 1}}, {3, {4, 5}}, {1, {6, 7}}}));
  EXPECT_EQ(messages(schedule, 3, Verb::kRecv),
            (std::vector<Message>{{2, {2}}, {4, {4, 5}}, {2, {0, 1}}, {4, {6, 7}}}));
}

TEST(RecursiveMultiplying, MeetsThreeOthersARoundAtSixteenRanks) {
  const Schedule schedule = schedule_of(recursive_multiplying(), Collective::kAllReduce, 16);
  EXPECT_EQ(peers(messages(schedule, 0, Verb::kSend)), (std::vector<Rank>{1, 2, 3, 4, 8, 12}));
  EXPECT_EQ(peers(messages(schedule, 6, Verb::kSend)), (std::vector<Rank>{7, 4, 5, 10, 14, 2}));
}

TEST(Sets, AreCutWhereTheDistanceChanges) {
  const std::vector<std::uint32_t> chunks = {0, 3, 6, 7, 8, 12};
  const std::vector<ir::ChunkSet> expected = {out(0, 3, 3), out(7, 2, 1), out(12)};
  EXPECT_EQ(as_sets(ir::Space::kOutput, chunks), expected);
  EXPECT_TRUE(as_sets(ir::Space::kOutput, {}).empty());
}

}  // namespace
}  // namespace tutti::algorithms
