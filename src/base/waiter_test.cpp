#include "src/base/waiter.hpp"

#include <algorithm>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace tutti {
namespace {

using std::chrono::milliseconds;

/// Sleeps from the first poll on.
WaitPolicy sleeper(Nanos longest) { return {0, 0, longest}; }

TEST(Waiter, RanksThatShareCpusDoNotSpin) {
  EXPECT_EQ(WaitPolicy::for_ranks_on_host(3, 2).spins, 0u);
  EXPECT_GT(WaitPolicy::for_ranks_on_host(2, 2).spins, 0u);
}

TEST(Waiter, YieldsForMillisecondsBeforeItSleeps) {
  for (const int ranks : {2, 8}) {
    const WaitPolicy policy = WaitPolicy::for_ranks_on_host(ranks, 2);
    EXPECT_EQ(policy.phase(policy.spins + 19999), WaitPhase::kYield);
    EXPECT_EQ(policy.phase(policy.spins + 20000), WaitPhase::kSleep);
  }
}

TEST(Waiter, SleepsSoonBesideACallerThatComputesUnlessEachHasACpu) {
  const WaitPolicy crowded = WaitPolicy::with_computing_callers(2, 3);
  EXPECT_EQ(crowded.phase(crowded.spins), WaitPhase::kSleep);
  EXPECT_LT(crowded.spins, WaitPolicy().spins);
  EXPECT_EQ(WaitPolicy::with_computing_callers(2, 4).spins, WaitPolicy().spins);
}

TEST(Waiter, SpinsThenYieldsThenSleeps) {
  const WaitPolicy policy{2, 3, milliseconds(1)};
  const auto phase = [&](std::uint32_t polls) { return policy.phase(polls); };
  EXPECT_EQ(phase(0), WaitPhase::kSpin);
  EXPECT_EQ(phase(1), WaitPhase::kSpin);
  EXPECT_EQ(phase(2), WaitPhase::kYield);
  EXPECT_EQ(phase(4), WaitPhase::kYield);
  EXPECT_EQ(phase(5), WaitPhase::kSleep);
  EXPECT_EQ(phase(~std::uint32_t{0}), WaitPhase::kSleep);
}

TEST(Waiter, SleepsOnlyWhileTheWordHoldsWhatWasSeen) {
  const std::atomic<std::uint64_t> word{8};
  std::atomic<std::uint32_t> sleepers{0};
  const TimePoint begin = Clock::now();
  wait_once(sleeper(milliseconds(900)), 0, {&word, 7, &sleepers});
  EXPECT_LT(Clock::now() - begin, milliseconds(900));
  EXPECT_EQ(sleepers, 0u);
}

TEST(Waiter, ASleepEndsByItselfAfterTheLongestSleep) {
  const std::atomic<std::uint64_t> word{7};
  std::atomic<std::uint32_t> sleepers{0};
  const TimePoint begin = Clock::now();
  wait_once(sleeper(milliseconds(20)), 0, {&word, 7, &sleepers});
  EXPECT_GE(Clock::now() - begin, milliseconds(15));
  EXPECT_EQ(sleepers, 0u);
}

TEST(Waiter, SleepsOfSecondsAreSleepsToo) {
  // The limit is split into seconds and nanoseconds: a second's worth of the latter is refused.
  const std::atomic<std::uint64_t> word{7};
  std::atomic<std::uint32_t> sleepers{0};
  const TimePoint begin = Clock::now();
  wait_once(sleeper(milliseconds(1001)), 0, {&word, 7, &sleepers});
  EXPECT_GE(Clock::now() - begin, milliseconds(900));
}

TEST(Waiter, AWriterWakesWhoSleeps) {
  std::atomic<std::uint64_t> word{7};
  std::atomic<std::uint32_t> sleepers{0};
  std::thread writer([&] {
    while (sleepers.load() == 0) std::this_thread::yield();
    word.store(8);
    while (sleepers.load() != 0) {  // it announced itself, but may not have slept yet
      wake_sleepers(word, sleepers);
      std::this_thread::yield();
    }
  });
  const TimePoint begin = Clock::now();
  wait_once(sleeper(std::chrono::seconds(60)), 0, {&word, 7, &sleepers});
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(50));
  writer.join();
}

/// Words that hold 7, as seen, and a wait for all of them.
struct Words {
  explicit Words(std::size_t count, Nanos longest) : words(count) {
    waits.longest_sleep = longest;
    for (auto& word : words) {
      word = 7;
      waits.words.push_back({&word, 7, &sleepers});
    }
  }
  [[nodiscard]] bool any_changed() const {
    return std::ranges::any_of(words, [](const auto& word) { return word != 7; });
  }
  std::vector<std::atomic<std::uint64_t>> words;
  std::atomic<std::uint32_t> sleepers{0};
  WaitSet waits;
};

TEST(Waiter, AWriterOfAnyWordWakesWhoSleepsOnSeveral) {
  for (const std::size_t count : {1u, 2u, 5u}) {
    Words all(count, std::chrono::seconds(60));
    std::thread writer([&] {
      while (all.sleepers == 0) std::this_thread::yield();
      all.words.back() = 8;
      while (all.sleepers != 0) {
        wake_sleepers(all.words.back(), all.sleepers);
        std::this_thread::yield();
      }
    });
    const TimePoint begin = Clock::now();
    while (!all.any_changed()) wait_once(all.waits);
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(50)) << count;
    writer.join();
    EXPECT_EQ(all.sleepers, 0u);
  }
}

TEST(Waiter, ASleepOnSeveralWordsBeginsOnlyWhileAllHoldWhatWasSeen) {
  Words all(4, std::chrono::seconds(60));
  all.words[2] = 8;
  const TimePoint begin = Clock::now();
  wait_once(all.waits);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(50));
}

TEST(Waiter, SleepsOnMoreWordsThanTheKernelTakes) {
  Words all(300, milliseconds(20));
  const TimePoint begin = Clock::now();
  // Without the call for several words a sleep is a millisecond.
  for (int i = 0; i < 20; ++i) wait_once(all.waits);
  EXPECT_GE(Clock::now() - begin, milliseconds(15));
  EXPECT_EQ(all.sleepers, 0u);
}

TEST(Waiter, ADescriptorEndsASleepToo) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  Words none(0, std::chrono::seconds(60));
  none.waits.descriptors.push_back({ends[0], POLLIN, 0});
  std::thread writer([&] { EXPECT_EQ(write(ends[1], "x", 1), 1); });
  const TimePoint begin = Clock::now();
  wait_once(none.waits);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(50));
  EXPECT_NE(none.waits.descriptors[0].revents & POLLIN, 0);
  writer.join();
  close(ends[0]);
  close(ends[1]);
}

TEST(Waiter, NothingToWaitForIsASleepAllTheSame) {
  WaitSet nothing;
  const TimePoint begin = Clock::now();
  for (int i = 0; i < 10; ++i) wait_once(nothing);
  EXPECT_GE(Clock::now() - begin, milliseconds(5));
}

TEST(Waiter, ASetThatStillSpinsDoesNotSleep) {
  Words all(2, std::chrono::seconds(60));
  all.waits.phase = WaitPhase::kSpin;
  const TimePoint begin = Clock::now();
  wait_once(all.waits);
  all.waits.phase = WaitPhase::kYield;
  wait_once(all.waits);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(50));
}

}  // namespace
}  // namespace tutti
