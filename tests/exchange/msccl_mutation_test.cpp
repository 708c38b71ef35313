// The test of the reader of MSCCL's files: mutants of correct files. A mutant is refused, or it is
// shown to be harmless by executing it in many orders. One that is read, although thread blocks can
// run so that its result is wrong, fails the test.
//
// Half of the mutants are of files without any wait (depid, deps) that the reader can do without:
// there messages carry the order of steps.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"
#include "src/exchange/msccl_xml.hpp"
#include "tests/exchange/msccl_files.hpp"

namespace tutti::exchange {
namespace {

constexpr std::size_t kMutantsOfAKind = 500;
constexpr std::uint64_t kOrdersTried = 24;

/// TUTTI_TEST_SEED repeats a run.
std::uint64_t test_seed() {
  const char* text = std::getenv("TUTTI_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device{}();
}

struct File {
  ir::Request request;
  MscclAlgo algo;
};

/// Takes out all waits without which the file is still read. How many there were.
std::size_t take_out_waits(MscclAlgo& algo) {
  std::size_t taken = 0;
  for (MscclGpu& gpu : algo.gpus)
    for (MscclBlock& block : gpu.blocks)
      for (MscclStep& step : block.steps) {
        if (step.after_block < 0) continue;
        const MscclStep before = step;
        step.after_block = step.after_step = -1;
        if (read_msccl_xml(text_of(algo)))
          ++taken;
        else
          step = before;
      }
  return taken;
}

/// The first error over many orders; "" if every execution was exact.
std::string harm(const File& file) {
  for (std::uint64_t seed = 0; seed < kOrdersTried; ++seed)
    if (const Status status = execute(file.algo, file.request, seed); !status)
      return status.error().what;
  return "";
}

struct Tally {
  std::size_t made = 0;
  std::size_t caught_harmful = 0;  ///< refused, and an execution shows why
  std::size_t caught_only = 0;     ///< refused, though no execution went wrong
  std::size_t harmless = 0;        ///< read, and every execution was exact
  std::size_t missed = 0;          ///< read, and an execution went wrong
};

class MscclMutants : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (const ir::Algorithm& algorithm : algorithms::all())
      for (int kind = 0; kind < kCollectives; ++kind)
        for (const std::int32_t ranks : {2, 3, 4})
          for (const bool in_place : {false, true})
            add(algorithm, {static_cast<Collective>(kind), ranks, 0, in_place});
    std::fputs(
        fmt::format(
            "{} files, and {} of them without {} waits\n{:<20}{:>7}{:>16}{:>23}{:>10}{:>8}\n",
            files_.size(), lean_.size(), taken_out_, "mutation", "made", "caught, harmful",
            "caught, no harm shown", "harmless", "missed")
            .c_str(),
        stdout);
  }
  static void TearDownTestSuite() {
    files_.clear();
    lean_.clear();
  }

  static void add(const ir::Algorithm& algorithm, const ir::Request& request) {
    if (!algorithm.supports(request)) return;
    const auto schedule = algorithm.generate(request);
    ASSERT_TRUE(schedule) << schedule.error().what;
    const auto text = write_msccl_xml(*schedule);
    if (!text) return;  // the format has no words for it
    auto algo = parse_msccl_xml(*text);
    ASSERT_TRUE(algo) << algo.error().what;
    files_.push_back({request, *algo});
    MscclAlgo lean = *std::move(algo);
    const std::size_t taken = take_out_waits(lean);
    if (taken == 0) return;
    taken_out_ += taken;
    lean_.push_back({request, std::move(lean)});
  }

  static void check(FileMutation mutation) {
    const std::uint64_t seed = test_seed();
    SCOPED_TRACE(testing::Message() << "TUTTI_TEST_SEED=" << seed);
    std::mt19937_64 random(seed);
    Tally tally;
    for (int tries = 0; tries < 50'000 && tally.made < kMutantsOfAKind; ++tries) {
      const std::vector<File>& from = random() % 2 == 0 ? files_ : lean_;
      const File& file = from[random() % from.size()];
      if (auto mutant = mutate(file.algo, mutation, random))
        judge({file.request, *std::move(mutant)}, tally);
    }
    std::fputs(fmt::format("{:<20}{:>7}{:>16}{:>23}{:>10}{:>8}\n", name_of(mutation), tally.made,
                           tally.caught_harmful, tally.caught_only, tally.harmless, tally.missed)
                   .c_str(),
               stdout);
    EXPECT_EQ(tally.made, kMutantsOfAKind);
    EXPECT_GT(tally.caught_harmful, 0U);
    EXPECT_EQ(tally.missed, 0U);
  }

  static void judge(const File& mutant, Tally& tally) {
    ++tally.made;
    const std::string text = text_of(mutant.algo);
    const auto schedules = read_msccl_xml(text);
    const std::string wrong = harm(mutant);
    if (!schedules) {
      ++(wrong.empty() ? tally.caught_only : tally.caught_harmful);
      return;
    }
    ++(wrong.empty() ? tally.harmless : tally.missed);
    EXPECT_EQ(wrong, "") << "this file is read, but executing it fails:\n" << text;
  }

  inline static std::vector<File> files_, lean_;
  inline static std::size_t taken_out_ = 0;  ///< waits, of lean_
};

TEST_F(MscclMutants, TheOriginalsAreReadAndExecuteExactly) {
  EXPECT_GT(taken_out_, 100U);
  for (const auto* const files : {&files_, &lean_}) {
    ASSERT_FALSE(files->empty());
    for (const File& file : *files) {
      const auto schedules = read_msccl_xml(text_of(file.algo));
      ASSERT_TRUE(schedules) << schedules.error().what << "\n" << text_of(file.algo);
      ASSERT_EQ(harm(file), "") << text_of(file.algo);
    }
  }
}

TEST_F(MscclMutants, WithoutAWaitAreRefusedOrHarmless) { check(FileMutation::kWaitGone); }
TEST_F(MscclMutants, WithAnotherWaitAreRefusedOrHarmless) { check(FileMutation::kWaitMoved); }
TEST_F(MscclMutants, WithASilentStepAreRefusedOrHarmless) { check(FileMutation::kWaitHidden); }
TEST_F(MscclMutants, WithTwoStepsSwappedAreRefusedOrHarmless) { check(FileMutation::kSwap); }
TEST_F(MscclMutants, WithAStepInItsOwnBlockAreRefusedOrHarmless) { check(FileMutation::kSplit); }
TEST_F(MscclMutants, WithoutAStepAreRefusedOrHarmless) { check(FileMutation::kDrop); }
TEST_F(MscclMutants, WithAStepTwiceAreRefusedOrHarmless) { check(FileMutation::kDuplicate); }
TEST_F(MscclMutants, WithAnotherTypeAreRefusedOrHarmless) { check(FileMutation::kType); }
TEST_F(MscclMutants, WithAnotherChunkAreRefusedOrHarmless) { check(FileMutation::kChunk); }
TEST_F(MscclMutants, WithAnotherBufferAreRefusedOrHarmless) { check(FileMutation::kBuffer); }
TEST_F(MscclMutants, OnAnotherChannelAreRefusedOrHarmless) { check(FileMutation::kChannel); }

}  // namespace
}  // namespace tutti::exchange
