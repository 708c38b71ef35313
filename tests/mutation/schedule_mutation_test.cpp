// The verifier's own test: mutants of correct schedules. A mutant is either refused, or shown to be
// harmless by executing it in many orders with the exact result each time. One that is accepted and
// yields a wrong result in any order fails the test.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"
#include "src/ir/sample_schedules.hpp"
#include "src/ir/text.hpp"
#include "src/ir/verify.hpp"
#include "tests/mutation/execute_schedule.hpp"
#include "tests/mutation/schedule_mutants.hpp"

namespace tutti::ir {
namespace {

constexpr std::size_t kMutantsOfAKind = 600;
constexpr std::uint64_t kSeedsTried = 8;  // for each ordering

/// TUTTI_TEST_SEED repeats a run.
std::uint64_t test_seed() {
  const char* text = std::getenv("TUTTI_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device{}();
}

/// The schedules of every algorithm for every request of 2 to 9 ranks that it supports, and some
/// whose ranks are members of two groups.
std::vector<Schedule> originals() {
  std::vector<Schedule> schedules;
  for (const bool in_place : {false, true}) {
    for (const Rank ranks : {2, 3, 6}) schedules.push_back(samples::on_two_trees(ranks, in_place));
    for (const Rank ranks : {4, 8}) schedules.push_back(samples::in_two_levels(ranks, in_place));
  }
  const auto add = [&](const Algorithm& algorithm, const Request& request) {
    if (!algorithm.supports(request)) return;
    Result<Schedule> schedule = algorithm.generate(request);
    ASSERT_TRUE(schedule) << schedule.error().what;
    schedules.push_back(*std::move(schedule));
  };
  for (const Algorithm& algorithm : algorithms::with_in_network()) {
    for (int kind = 0; kind < kCollectives; ++kind) {
      for (Rank ranks = 2; ranks <= 9; ++ranks) {
        const auto collective = static_cast<Collective>(kind);
        const Rank root = rooted(collective) ? ranks / 2 : 0;
        add(algorithm, {collective, ranks, root, false});
        add(algorithm, {collective, ranks, root, true});
      }
    }
  }
  return schedules;
}

/// The first error over all orderings; "" when every execution was exact.
std::string harm(const Schedule& schedule, std::uint32_t fifo_depth) {
  for (std::uint64_t seed = 0; seed < kSeedsTried; ++seed) {
    for (int ordering = 0; ordering < kOrderings; ++ordering) {
      const ExecuteOptions options{static_cast<Ordering>(ordering), seed, fifo_depth};
      if (const Status status = execute(schedule, options); !status) return status.error().what;
    }
  }
  return "";
}

struct Tally {
  std::size_t made = 0;
  std::size_t caught_harmful = 0;  ///< refused, and an execution shows why
  std::size_t caught_only = 0;     ///< refused, though no execution went wrong
  std::size_t harmless = 0;        ///< accepted, and every execution was exact
  std::size_t missed = 0;          ///< accepted, and an execution went wrong
};

class ScheduleMutants : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    originals_ = originals();
    std::fputs(fmt::format("{:<20}{:>7}{:>16}{:>23}{:>10}{:>8}\n", "mutation", "made",
                           "caught, harmful", "caught, no harm shown", "harmless", "missed")
                   .c_str(),
               stdout);
  }
  static void TearDownTestSuite() { originals_.clear(); }

  static void judge(const Schedule& mutant, const VerifyOptions& options, Tally& tally) {
    ++tally.made;
    const Result<Proof> proof = verify(mutant, options);
    const std::string wrong = harm(mutant, options.fifo_depth);
    if (!proof) {
      ++(wrong.empty() ? tally.caught_only : tally.caught_harmful);
      return;
    }
    ++(wrong.empty() ? tally.harmless : tally.missed);
    EXPECT_EQ(wrong, "") << "verify accepts this schedule, but executing it fails:\n"
                         << print(mutant);
  }

  static Tally judge_mutants(std::vector<Schedule>& originals, Mutation mutation,
                             std::uint64_t seed) {
    std::mt19937_64 random(seed);
    Tally tally;
    // Round after round over all schedules in a random order, so that each has its share.
    constexpr int kMostRounds = 200;
    for (int round = 0; round < kMostRounds && tally.made < kMutantsOfAKind; ++round) {
      std::shuffle(originals.begin(), originals.end(), random);
      for (const Schedule& original : originals) {
        if (tally.made == kMutantsOfAKind) break;
        const auto mutant = mutate(original, mutation, random);
        const auto depth = static_cast<std::uint32_t>(1 + random() % 2);
        if (mutant) judge(*mutant, {depth}, tally);
      }
    }
    return tally;
  }

  static void check(Mutation mutation) { check(originals_, mutation); }
  static void check(std::vector<Schedule>& originals, Mutation mutation) {
    const std::uint64_t seed = test_seed();
    SCOPED_TRACE(testing::Message() << "TUTTI_TEST_SEED=" << seed);
    const Tally tally = judge_mutants(originals, mutation, seed);
    std::fputs(fmt::format("{:<20}{:>7}{:>16}{:>23}{:>10}{:>8}\n", name_of(mutation), tally.made,
                           tally.caught_harmful, tally.caught_only, tally.harmless, tally.missed)
                   .c_str(),
               stdout);
    EXPECT_GE(tally.made, 500U);
    EXPECT_GT(tally.caught_harmful, 0U);
    EXPECT_EQ(tally.missed, 0U);
  }

  inline static std::vector<Schedule> originals_;
};

TEST_F(ScheduleMutants, TheOriginalsAreProvedAndExecuteExactly) {
  ASSERT_FALSE(originals_.empty());
  for (const Schedule& schedule : originals_) {
    const Result<Proof> proof = verify(schedule);
    ASSERT_TRUE(proof) << proof.error().what << "\n" << print(schedule);
    ASSERT_EQ(harm(schedule, 1), "") << print(schedule);
  }
}

TEST_F(ScheduleMutants, WithoutAStepAreCaughtOrHarmless) { check(Mutation::kDrop); }
TEST_F(ScheduleMutants, WithAStepTwiceAreCaughtOrHarmless) { check(Mutation::kDuplicate); }
TEST_F(ScheduleMutants, WithStepsSwappedAreCaughtOrHarmless) { check(Mutation::kSwap); }
TEST_F(ScheduleMutants, WithAnotherChunkAreCaughtOrHarmless) { check(Mutation::kChunk); }
TEST_F(ScheduleMutants, WithAnotherPeerAreCaughtOrHarmless) { check(Mutation::kPeer); }
TEST_F(ScheduleMutants, WithAnotherLaneAreCaughtOrHarmless) { check(Mutation::kLane); }
TEST_F(ScheduleMutants, WithAnotherVerbAreCaughtOrHarmless) { check(Mutation::kVerb); }
TEST_F(ScheduleMutants, WithAnotherSpaceAreCaughtOrHarmless) { check(Mutation::kSpace); }
TEST_F(ScheduleMutants, WithoutADependencyAreCaughtOrHarmless) { check(Mutation::kDependency); }
TEST_F(ScheduleMutants, WithAnotherCountAreCaughtOrHarmless) { check(Mutation::kCount); }
TEST_F(ScheduleMutants, WithAnotherStrideAreCaughtOrHarmless) { check(Mutation::kStride); }
TEST_F(ScheduleMutants, WithOtherScratchSizesAreCaughtOrHarmless) { check(Mutation::kScratch); }
TEST_F(ScheduleMutants, WithAnotherFormatAreCaughtOrHarmless) { check(Mutation::kFormat); }
TEST_F(ScheduleMutants, WithAnotherGroupAreCaughtOrHarmless) { check(Mutation::kGroup); }
/// Of all mutants, few are of schedules with groups.
TEST_F(ScheduleMutants, OfWhatTheNetworkDoesAreCaughtOrHarmless) {
  std::vector<Schedule> grouped;
  std::ranges::copy_if(originals_, std::back_inserter(grouped),
                       [](const Schedule& schedule) { return !schedule.groups.empty(); });
  for (const Mutation mutation :
       {Mutation::kDrop, Mutation::kDuplicate, Mutation::kSwap, Mutation::kChunk, Mutation::kVerb,
        Mutation::kSpace, Mutation::kCount})
    check(grouped, mutation);
}
TEST_F(ScheduleMutants, WithOtherMembersAreCaughtOrHarmless) { check(Mutation::kMember); }

}  // namespace
}  // namespace tutti::ir
