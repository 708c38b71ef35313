// With algorithms of its own, whose times follow from their messages.
#include "src/cost/proposals.hpp"

#include <gtest/gtest.h>

#include "src/ir/builder.hpp"

namespace tutti {
namespace {

using ir::in;
using ir::out;

bool any(const ir::Request&) { return true; }

/// The root sends to everybody.
Result<ir::Schedule> star(const ir::Request& request) {
  ir::Builder build(request, "star", 1);
  build.rank(0).copy(in(0), out(0));
  for (Rank rank = 1; rank < request.ranks; ++rank) {
    build.rank(0).send(in(0), rank);
    build.rank(rank).recv(out(0), 0);
  }
  return std::move(build).finish();
}

/// Everybody sends on to the next one.
Result<ir::Schedule> chain(const ir::Request& request) {
  ir::Builder build(request, "chain", 1);
  build.rank(0).copy(in(0), out(0));
  for (Rank rank = 1; rank < request.ranks; ++rank) {
    build.rank(rank - 1).send(rank == 1 ? in(0) : out(0), rank);
    build.rank(rank).recv(out(0), rank - 1);
  }
  return std::move(build).finish();
}

ir::Algorithm algorithm(std::string_view name,
                        Result<ir::Schedule> (*generate)(const ir::Request&)) {
  ir::Algorithm made;
  made.name = name;
  made.supports = any;
  made.generate = generate;
  return made;
}

const ir::Algorithm kStar = algorithm("star", star), kChain = algorithm("chain", chain);
const std::vector<const ir::Algorithm*> kBoth = {&kStar, &kChain};

/// Four hosts of one rank each.
const lower::Placement kHosts = {{0, 1, 2, 3}};

ProposedCall broadcast_of(std::uint64_t bytes, std::int32_t ranks = 4) {
  return {{.collective = Collective::kBroadcast, .ranks = ranks}, bytes, bytes, 1};
}

/// What is proposed in place of `ruled`, the best first.
std::vector<std::string_view> names(const std::vector<Proposal>& proposals) {
  std::vector<std::string_view> names;
  for (const Proposal& each : proposals) names.push_back(each.algorithm->name);
  return names;
}
using Names = std::vector<std::string_view>;

Calibration far_apart() {
  Calibration calibration;
  calibration.between = {.send_us = 0, .receive_us = 0, .latency_us = 10'000};
  return calibration;
}

TEST(Proposals, NameWhatIsClearlyFasterThanTheRules) {
  Proposals proposals(far_apart(), 1 << 20);
  const auto& found = proposals.faster_than(kChain, broadcast_of(8), kBoth, kHosts);
  ASSERT_EQ(names(found), Names{"star"});
  EXPECT_GT(found[0].ruled_us, 29'000) << "three messages one after the other";
  EXPECT_LT(found[0].us, 11'000) << "three messages at once";
}

TEST(Proposals, LeaveTheRulesWhatIsNotClearlySlower) {
  Calibration calibration = far_apart();
  const auto proposed = [&](double call_us) {
    calibration.call_us = call_us;  // of both: the more it is, the less they differ in proportion
    Proposals proposals(calibration, 1 << 20);
    return names(proposals.faster_than(kChain, broadcast_of(8), kBoth, kHosts));
  };
  EXPECT_EQ(proposed(100'000), Names{"star"}) << "130 ms and 110 ms";
  EXPECT_EQ(proposed(300'000), Names{}) << "330 ms and 310 ms";
}

TEST(Proposals, AreNoneWhereTheRulesChooseTheFastest) {
  Proposals proposals(far_apart(), 1 << 20);
  EXPECT_EQ(names(proposals.faster_than(kStar, broadcast_of(8), kBoth, kHosts)), Names{});
}

TEST(Proposals, FollowTheSizeOfTheCall) {
  Calibration calibration = far_apart();
  calibration.between.latency_us = 1;
  Proposals proposals(calibration, 1 << 20);
  EXPECT_EQ(names(proposals.faster_than(kStar, broadcast_of(1 << 20), kBoth, kHosts)),
            Names{"chain"})
      << "the root's interface carries everything three times";
  EXPECT_EQ(names(proposals.faster_than(kStar, broadcast_of(8), kBoth, kHosts)), Names{});
}

TEST(Proposals, AreTheSameForAllSizesOfAClass) {
  Calibration calibration = far_apart();
  calibration.between.latency_us = 1;
  Proposals proposals(calibration, 1 << 20);
  const auto us = [&](std::uint64_t bytes) {
    const auto& found = proposals.faster_than(kStar, broadcast_of(bytes), kBoth, kHosts);
    return found.empty() ? 0 : found.front().us;
  };
  EXPECT_EQ(us((1 << 19) + 1), us(1 << 20));
  EXPECT_NE(us(1 << 19), us(1 << 20));
}

TEST(Proposals, OfCallsThatAreNotSimulatedAreExtrapolated) {
  // At 64 KiB what counts is the latency, at 1 GiB the root's interface.
  Proposals proposals(far_apart(), 1 << 20);
  constexpr std::uint64_t kSimulated = 1 << 16, kHuge = 1 << 30;
  EXPECT_EQ(names(proposals.faster_than(kChain, broadcast_of(kSimulated), kBoth, kHosts)),
            Names{"star"});
  const auto& huge = proposals.faster_than(kStar, broadcast_of(kHuge), kBoth, kHosts);
  ASSERT_EQ(names(huge), Names{"chain"});
  EXPECT_NEAR(huge[0].ruled_us, 3 * kHuge / 118.0, 0.1 * 3 * kHuge / 118.0);
}

TEST(Proposals, AreNoneForMoreRanksThanAreSimulated) {
  Proposals proposals(far_apart(), 1 << 20);
  lower::Placement placement;
  for (std::int32_t host = 0; host <= Proposals::kMostRanks; ++host) placement.host.push_back(host);
  const ProposedCall call = broadcast_of(8, Proposals::kMostRanks + 1);
  EXPECT_EQ(names(proposals.faster_than(kChain, call, kBoth, placement)), Names{});
}

}  // namespace
}  // namespace tutti
