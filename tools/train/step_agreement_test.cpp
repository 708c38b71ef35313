#include "tools/train/step_agreement.hpp"

#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace tutti::trainer {
namespace {

constexpr int kRanks = 3;

template <class Each>
void run_ranks(Each each) {
  auto comms = Comm::all(kRanks);
  ASSERT_TRUE(comms) << comms.error().what;
  std::vector<std::jthread> threads;
  for (Comm& comm : *comms) threads.emplace_back([&comm, &each] { each(comm); });
}

TEST(StepAgreementTest, AddsLossesAndTakesTheClockOfRankZero) {
  run_ranks([](Comm& comm) {
    const auto agreed =
        agree_on_step(comm, {.loss = 1.5 * comm.rank(), .seconds = 10.0 + comm.rank(), .owed = 2});
    ASSERT_TRUE(agreed);
    EXPECT_EQ(agreed->loss, 4.5);
    EXPECT_EQ(agreed->seconds, 10);
    EXPECT_DOUBLE_EQ(agreed->owed, std::sqrt(12));
    EXPECT_FALSE(agreed->stops);
    EXPECT_EQ(agreed->first_bad_loss, kNoRank);
  });
}

TEST(StepAgreementTest, EndsAllWhereOneIsAskedTo) {
  run_ranks(
      [](Comm& comm) { EXPECT_TRUE(agree_on_step(comm, {.stops = comm.rank() == 2})->stops); });
}

TEST(StepAgreementTest, NamesTheFirstRankWhoseLossIsNoNumber) {
  run_ranks([](Comm& comm) {
    const double loss = comm.rank() == 0 ? 1 : std::numeric_limits<double>::quiet_NaN();
    EXPECT_EQ(agree_on_step(comm, {.loss = loss})->first_bad_loss, 1);
  });
}

TEST(StepAgreementTest, SharesSumsAndTheNumbersOfRankZero) {
  run_ranks([](Comm& comm) {
    double sums[] = {1, 2.0 * comm.rank()};
    ASSERT_TRUE(add_up(comm, sums));
    EXPECT_EQ(sums[0], 3);
    EXPECT_EQ(sums[1], 6);
    std::uint64_t numbers[] = {7U + static_cast<std::uint64_t>(comm.rank())};
    ASSERT_TRUE(from_rank_0(comm, numbers));
    EXPECT_EQ(numbers[0], 7U);
  });
}

TEST(SecondsPerByte, AreKnownWhereThereArePeersAlone) {
  run_ranks([](Comm& comm) {
    const auto seconds = seconds_per_byte(comm);
    ASSERT_TRUE(seconds);
    EXPECT_GT(seconds->value_or(0), 0);
  });
  EXPECT_EQ(*seconds_per_byte((*Comm::all(1))[0]), std::nullopt);
}

}  // namespace
}  // namespace tutti::trainer
