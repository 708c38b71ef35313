// Every order of events between workers and switches that add for them: results are right, and
// nobody is stuck. Planted mistakes are found.
#include <cstdio>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/switch/slot_model.hpp"

namespace tutti::model {
namespace {

using testing::HasSubstr;

void expect_right(const char* what, const SlotJob& job) {
  const SlotExploration found = explore(job);
  std::printf("explored %zu states: %s\n", found.states, what);
  EXPECT_EQ(found.mistake, "") << fmt::format("{}", fmt::join(found.steps, "\n"));
}

TEST(SlotModel, OneSlotIsRightInAnyOrderOfPackets) {
  expect_right("2 workers, 1 slot, calls of 4, 1 and 5 chunks", {.calls = {4, 1, 5}});
  expect_right("4 workers, 1 slot, 9 chunks", {.workers = 4, .calls = {9}});
}

TEST(SlotModel, TwoSlotsAreRightInAnyOrderOfPackets) {
  expect_right("2 workers, 2 slots, calls of 3, 1 and 8 chunks", {.slots = 2, .calls = {3, 1, 8}});
  expect_right("3 workers, 2 slots, 6 chunks", {.workers = 3, .slots = 2, .calls = {6}});
}

TEST(SlotModel, ATreeIsRightInAnyOrderOfPackets) {
  expect_right("2 leaves of 1 worker, 1 slot, 6 chunks", {.workers = 1, .leaves = 2, .calls = {6}});
  expect_right("2 leaves of 2 workers, 1 slot, 5 chunks",
               {.workers = 2, .leaves = 2, .calls = {5}});
  expect_right("2 leaves of 1 worker, 2 slots, 5 chunks",
               {.workers = 1, .leaves = 2, .slots = 2, .calls = {5}});
}

TEST(SlotModel, AnOrderlyNetworkIsRightToo) {
  expect_right("2 workers, 1 slot, 5 chunks, queues of 2",
               {.calls = {5}, .network = Network::kFifo});
}

// What SwitchML's packets rely on, and these do not: that no packet of a worker overtakes another.
TEST(SlotModel, PacketsWithoutChunkNumbersAreRightInOrder) {
  expect_right("2 workers, 1 slot, 5 chunks, queues of 2, no numbers",
               {.calls = {5}, .network = Network::kFifo, .mistake = SlotMistake::kNoNumbers});
}

struct SeededSlot {
  const char* name;
  SlotJob job;
  const char* mistake;
};
std::ostream& operator<<(std::ostream& out, const SeededSlot& seeded) { return out << seeded.name; }

std::vector<SeededSlot> seeded_slots() {
  constexpr const char* kStuck = "nobody can go on";
  const auto flat = [](SlotMistake mistake) { return SlotJob{.calls = {5}, .mistake = mistake}; };
  const auto wrong = [](SlotJob job) {
    job.checks_progress = false;
    return job;
  };
  const auto tree = [](SlotMistake mistake) {
    return SlotJob{.workers = 1, .leaves = 2, .calls = {5}, .mistake = mistake};
  };
  return {
      {"OneVersion", flat(SlotMistake::kOneVersion), kStuck},
      {"KeepsBitmap", flat(SlotMistake::kKeepsBitmap), "takes"},
      {"AddsCopies", flat(SlotMistake::kAddsCopies), "takes"},
      {"DropsCopies", flat(SlotMistake::kDropsCopies), kStuck},
      {"TakesStale", flat(SlotMistake::kTakesStale), kStuck},
      {"SendsEarly", flat(SlotMistake::kSendsEarly), "is refused"},
      {"SendsEarlyAllowed", flat(SlotMistake::kSendsEarlyAllowed), kStuck},
      {"TakesAnyResult", flat(SlotMistake::kTakesAnyResult), "takes"},
      {"LastExponent", flat(SlotMistake::kLastExponent), "takes"},
      {"NoNumbers", wrong(flat(SlotMistake::kNoNumbers)), "takes"},
      {"NoNumbersStick", flat(SlotMistake::kNoNumbers), kStuck},
      {"LeafAnswersItself", wrong(tree(SlotMistake::kLeafAnswersItself)), "takes"},
      {"LeafSendsOnce", tree(SlotMistake::kLeafSendsOnce), kStuck},
  };
}

class SlotMistakes : public testing::TestWithParam<SeededSlot> {};

TEST_P(SlotMistakes, AreFoundByTheFewestSteps) {
  const SlotExploration found = explore(GetParam().job);
  std::printf("explored %zu states until %s shows: %s\n  %s\n", found.states, GetParam().name,
              found.mistake.c_str(), fmt::format("{}", fmt::join(found.steps, "\n  ")).c_str());
  EXPECT_THAT(found.mistake, HasSubstr(GetParam().mistake));
}

INSTANTIATE_TEST_SUITE_P(Seeded, SlotMistakes, testing::ValuesIn(seeded_slots()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tutti::model
