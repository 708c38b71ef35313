#include "src/base/waiter.hpp"

#include <thread>

#include <gtest/gtest.h>

namespace tutti {
namespace {

using std::chrono::milliseconds;

/// Sleeps from the first poll on.
WaitPolicy sleeper(Nanos longest) { return {0, 0, longest}; }

TEST(Waiter, RanksThatShareCpusDoNotSpin) {
  EXPECT_EQ(WaitPolicy::for_ranks_on_host(3, 2).spins, 0u);
  EXPECT_GT(WaitPolicy::for_ranks_on_host(2, 2).spins, 0u);
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

}  // namespace
}  // namespace tutti
