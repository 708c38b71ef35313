// The order that StepOrder finds, against the whole relation by brute force.
#include "src/exchange/step_order.hpp"

#include <random>
#include <set>
#include <utility>

#include <gtest/gtest.h>

namespace tutti::exchange {
namespace {

constexpr std::size_t kGpus = 3, kBlocks = 3, kCells = 4;

struct Ran {
  std::size_t gpu = 0;
  BlockStep step;
  std::set<std::size_t> after;  // all steps that come before this one, by index
};

/// Runs steps in a random order, with random waits and messages between them.
class RandomRun {
 public:
  explicit RandomRun(std::uint32_t seed) : random_(seed) {
    for (std::size_t gpu = 0; gpu < kGpus; ++gpu) orders_.emplace_back(causes_, kBlocks, kCells);
  }

  void step() {
    Ran ran{
        .gpu = below(kGpus), .step = {static_cast<std::uint32_t>(below(kBlocks)), 0}, .after = {}};
    std::optional<BlockStep> awaited;
    StepIndex sender = kNoStep;
    const std::size_t wait_for = below(ran_.size() + 1), message_from = below(ran_.size() + 1);
    std::optional<std::size_t> before;  // in its block
    for (std::size_t i = 0; i < ran_.size(); ++i) {
      const Ran& other = ran_[i];
      if (other.gpu == ran.gpu && other.step.block == ran.step.block) {
        ran.step.step = other.step.step + 1;
        before = i;
      }
      if (i == wait_for && other.gpu == ran.gpu && other.step.block != ran.step.block) {
        awaited = other.step;
        follow(ran, i);
      }
      if (i == message_from && other.gpu != ran.gpu && below(2) == 0) {
        sender = static_cast<StepIndex>(i);
        follow(ran, i);
      }
    }
    if (before) follow(ran, *before);
    StepOrder& order = orders_[ran.gpu];
    ASSERT_EQ(order.begin(ran.step, awaited, sender), ran_.size());
    access(ran, order);
    order.complete(ran.step, true);
    ran_.push_back(std::move(ran));
  }

  int races = 0;
  int through_others = 0;  ///< orders that (also) lead through another gpu

 private:
  struct Cell {
    std::optional<std::size_t> writer;
    std::vector<std::size_t> readers;
  };

  std::size_t below(std::size_t limit) { return random_() % limit; }

  void follow(Ran& ran, std::size_t before) const {
    ran.after.insert(before);
    ran.after.insert(ran_[before].after.begin(), ran_[before].after.end());
  }

  /// Reads or writes a cell, which StepOrder finds to race where the relation says so.
  void access(const Ran& ran, StepOrder& order) {
    const std::size_t number = below(kCells);
    Cell& cell = cells_[ran.gpu][number];
    const bool writes = below(2) == 0;
    const auto found = writes ? order.write(number, ran.step) : order.read(number, ran.step);
    std::vector<std::size_t> rivals;
    if (cell.writer) rivals.push_back(*cell.writer);
    if (writes) rivals.insert(rivals.end(), cell.readers.begin(), cell.readers.end());
    bool races_here = false;
    for (const std::size_t rival : rivals) {
      races_here = races_here || !ran.after.contains(rival);
      through_others += ran.after.contains(rival) && leads_through_another_gpu(ran, rival);
    }
    ASSERT_EQ(found.has_value(), races_here) << "step " << ran_.size();
    if (races_here) {
      ++races;
      return;  // nothing is recorded
    }
    if (writes) {
      cell.writer = ran_.size();
      cell.readers.clear();
    } else {
      cell.readers.push_back(ran_.size());
    }
  }

  [[nodiscard]] bool leads_through_another_gpu(const Ran& ran, std::size_t rival) const {
    for (const std::size_t step : ran.after)
      if (ran_[step].gpu != ran.gpu && ran_[step].after.contains(rival)) return true;
    return false;
  }

  std::mt19937 random_;
  Patience patience_;
  Causes causes_{patience_};
  std::vector<StepOrder> orders_;
  std::vector<Ran> ran_;
  Cell cells_[kGpus][kCells];
};

TEST(StepOrder, IsTheWholeRelation) {
  int races = 0, through_others = 0;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    RandomRun run(seed);
    for (int i = 0; i < 120; ++i) run.step();
    races += run.races;
    through_others += run.through_others;
  }
  EXPECT_GT(races, 1000);
  EXPECT_GT(through_others, 1000);
}

TEST(Causes, GiveUpWhereAnOrderTakesTooLongToFind) {
  Patience patience;
  Causes causes(patience);
  StepIndex last = causes.add({kNoStep, kNoStep, kNoStep});
  const StepIndex alone = causes.add({kNoStep, kNoStep, kNoStep});
  for (int i = 0; i < 1'000'000; ++i) last = causes.add({last, kNoStep, kNoStep});
  EXPECT_FALSE(causes.gave_up());
  for (int i = 0; i < 200 && !causes.gave_up(); ++i) EXPECT_FALSE(causes.ordered(alone, last));
  EXPECT_TRUE(causes.gave_up());
}

}  // namespace
}  // namespace tutti::exchange
