// The replay check's own test: mutants of correct lowered programs. A mutant is either refused, or
// shown to be harmless by executing it under many adversaries with the exact result each time. One
// that is accepted and goes wrong in any execution fails the test.
//
// "reorder sources" is by its nature harmless to exact sums; it may change the last bits of
// floating point ones, which is for the order of the schedule's steps to fix and not for the check.
// "other formats everywhere" is harmless to exact formats, and always refused: it rounds otherwise
// than the schedule.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"
#include "src/ir/compress.hpp"
#include "src/ir/sample_schedules.hpp"
#include "src/ir/verify.hpp"
#include "src/lower/check.hpp"
#include "src/lower/lower.hpp"
#include "tests/lowering/execute_program.hpp"
#include "tests/lowering/program_mutants.hpp"

namespace tutti::lower {
namespace {

constexpr std::size_t kMutantsOfAKind = 520;
constexpr std::uint64_t kExecutions = 24;        ///< of a mutant that was accepted
constexpr std::uint64_t kExecutionsRefused = 6;  ///< of one that was not: to tell why, at best

/// TUTTI_TEST_SEED repeats a run.
std::uint64_t test_seed() {
  const char* text = std::getenv("TUTTI_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device{}();
}

struct Original {
  Lowered lowered;
  Placement placement;
  bool scales_input = false;
  std::vector<std::vector<ir::Recipe>> recipes = {};  ///< as Proof::recipes

  [[nodiscard]] std::string name() const {
    return fmt::format("{} {} n={} root={} in_place={} hosts={} protocol={} scales={} formats={}",
                       lowered.algorithm, tutti::name_of(lowered.request.collective),
                       lowered.request.ranks, lowered.request.root, lowered.request.in_place,
                       fmt::join(placement.host, ","), static_cast<int>(lowered.protocol),
                       scales_input, lowered.formats.size());
  }
};

/// One host, a host for each rank, two hosts.
std::vector<Placement> placements(std::int32_t ranks) {
  Placement one, each, two;
  for (Rank rank = 0; rank < ranks; ++rank) {
    one.host.push_back(0);
    each.host.push_back(rank);
    two.host.push_back(rank < (ranks + 1) / 2 ? 0 : 1);
  }
  if (ranks < 3) return {one, each};
  return {one, each, two};
}

void add_lowered(const ir::Schedule& schedule, std::vector<Original>& originals) {
  const auto proof = ir::verify(schedule);
  ASSERT_TRUE(proof) << proof.error().what;
  for (const Placement& placement : placements(schedule.request.ranks))
    for (const ProgramProtocol protocol :
         {ProgramProtocol::kStaged, ProgramProtocol::kPublished, ProgramProtocol::kDirect})
      for (const bool scales_input : {false, true}) {
        if (scales_input && !reduces(schedule.request.collective)) continue;
        LowerOptions options;
        options.protocol = protocol;
        options.scales_input = scales_input;
        if (!can_lower(schedule, placement, options)) continue;
        auto lowered = lower(schedule, *proof, placement, options);
        ASSERT_TRUE(lowered) << lowered.error().what;
        originals.push_back({*std::move(lowered), placement, scales_input, proof->recipes});
      }
}

/// Every algorithm lowered for every request of 2 to 6 ranks that it supports; up to 4 ranks also
/// compressed.
std::vector<Original> make_originals() {
  std::vector<Original> originals;
  for (const bool in_place : {false, true}) {
    add_lowered(ir::samples::on_two_trees(3, in_place), originals);
    add_lowered(ir::samples::in_two_levels(4, in_place), originals);
  }
  for (const ir::Algorithm& algorithm : algorithms::with_in_network())
    for (int kind = 0; kind < 8; ++kind)
      for (std::int32_t ranks = 2; ranks <= 6; ++ranks)
        for (const bool in_place : {false, true}) {
          const auto collective = static_cast<Collective>(kind);
          const Rank root = rooted(collective) ? ranks / 2 : 0;
          const ir::Request request{collective, ranks, root, in_place};
          if (!algorithm.supports(request)) continue;
          const auto schedule = algorithm.generate(request);
          EXPECT_TRUE(schedule) << algorithm.name;
          if (!schedule) continue;
          add_lowered(*schedule, originals);
          if (ranks <= 4 && schedule->formats.empty())
            add_lowered(ir::compress(*schedule, ir::CompressedMessages::kAll), originals);
        }
  return originals;
}

/// The first thing that went wrong in `executions` of them; "" when each was exact.
std::string harm(const Lowered& lowered, const Original& original, std::uint64_t seed,
                 std::uint64_t executions) {
  constexpr std::uint32_t kSlices[] = {3, 5, 1, 2, 4, 7};
  for (std::uint64_t i = 0; i < executions; ++i) {
    execution::Options options;
    options.seed = seed + i;
    options.scales_input = original.scales_input;
    options.slices = kSlices[i % std::size(kSlices)];
    if (i % 8 == 7) options.slices = lowered.slot_depth + 2;
    const execution::Outcome outcome = execution::execute(lowered, original.placement, options);
    if (outcome.verdict != execution::Verdict::kRight)
      return fmt::format("{} slices, seed {}: {}", options.slices, options.seed, outcome.what);
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

class ProgramMutants : public testing::TestWithParam<int> {
 protected:
  static void SetUpTestSuite() { originals_ = make_originals(); }
  static void TearDownTestSuite() { originals_.clear(); }

  static void judge(const Lowered& mutant, const Original& original, Mutation mutation,
                    std::uint64_t seed, Tally& tally) {
    ++tally.made;
    CheckOptions options;
    options.scales_input = original.scales_input;
    if (!original.recipes.empty()) options.recipes = &original.recipes;
    const Status status = check(mutant, original.placement, options);
    if (!status) {  // raw mutants that were refused may be anything: not executed
      const bool harmful =
          mutation == Mutation::kRaw || !harm(mutant, original, seed, kExecutionsRefused).empty();
      ++(harmful ? tally.caught_harmful : tally.caught_only);
      return;
    }
    const std::string wrong = harm(mutant, original, seed, kExecutions);
    ++(wrong.empty() ? tally.harmless : tally.missed);
    EXPECT_EQ(wrong, "") << original.name() << ": check accepts this mutant (" << name_of(mutation)
                         << "), but executing it fails\n"
                         << difference(original.lowered, mutant);
  }

  /// The ops that differ, as text.
  static std::string difference(const Lowered& original, const Lowered& mutant) {
    std::string text;
    for (Rank rank = 0; rank < original.request.ranks; ++rank) {
      const auto& before = original.programs[rank].ops;
      const auto& after = mutant.programs[rank].ops;
      for (std::uint32_t id = 0; id < std::min(before.size(), after.size()); ++id)
        if (before[id] != after[id])
          text +=
              fmt::format("- {}\n+ {}\n", describe(original, rank, id), describe(mutant, rank, id));
    }
    return text;
  }

  static Tally judge_mutants(Mutation mutation, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    Tally tally;
    constexpr std::size_t kMostTries = 60000;  // some kinds are rare, some do not exist 520 times
    for (std::size_t tries = 0; tries < kMostTries && tally.made < kMutantsOfAKind; ++tries) {
      const Original& original = originals_[random() % originals_.size()];
      const auto mutant = mutate(original.lowered, mutation, random);
      if (mutant) judge(*mutant, original, mutation, random(), tally);
    }
    return tally;
  }

  inline static std::vector<Original> originals_;
};

TEST_F(ProgramMutants, OriginalsExecuteExactly) {
  const std::uint64_t seed = test_seed();
  ASSERT_GT(originals_.size(), 500U);
  for (const Original& original : originals_)
    ASSERT_EQ(harm(original.lowered, original, seed, 8), "") << original.name();
}

TEST_P(ProgramMutants, AreCaughtOrHarmless) {
  const auto mutation = static_cast<Mutation>(GetParam());
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "TUTTI_TEST_SEED=" << seed);
  const Tally tally = judge_mutants(mutation, seed);
  std::fputs(fmt::format("{:<24} made {:>4}  caught and harmful {:>4}  caught only {:>4}  harmless "
                         "{:>4}  missed {:>4}  seed {}\n",
                         name_of(mutation), tally.made, tally.caught_harmful, tally.caught_only,
                         tally.harmless, tally.missed, seed)
                 .c_str(),
             stdout);
  EXPECT_EQ(tally.missed, 0U);
  EXPECT_GE(tally.made, 500U);
  if (mutation == Mutation::kFormats) {
    EXPECT_EQ(tally.caught_only, tally.made);
  } else if (mutation != Mutation::kSwapSources) {
    EXPECT_GT(tally.caught_harmful, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ProgramMutants, testing::Range(0, kMutations));

}  // namespace
}  // namespace tutti::lower
