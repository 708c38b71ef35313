#include "src/sim/agenda.hpp"

#include <gtest/gtest.h>

namespace tutti::sim {
namespace {

TEST(Agenda, TakesEventsInTheOrderOfTheirTimes) {
  Agenda<int> agenda;
  EXPECT_EQ(agenda.next(), kNever);
  for (const int time : {30, 10, 20}) agenda.enter(time, time);
  EXPECT_EQ(agenda.next(), 10);
  for (const int time : {10, 20, 30}) EXPECT_EQ(agenda.take(), time);
  EXPECT_TRUE(agenda.empty());
}

TEST(Agenda, TakesEventsOfOneTimeInTheOrderTheyWereEntered) {
  Agenda<int> agenda;
  for (int i = 0; i < 100; ++i) agenda.enter(7, i);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(agenda.take(), i);
}

TEST(VirtualTime, IsRoundedUpButForTheNoiseOfArithmetic) {
  EXPECT_EQ(from_picoseconds(40), 40);
  EXPECT_EQ(from_picoseconds(40.00001), 40);
  EXPECT_EQ(from_picoseconds(39.99999), 40);
  EXPECT_EQ(from_picoseconds(40.1), 41);
  EXPECT_EQ(from_microseconds(2.5), 2'500'000);
}

}  // namespace
}  // namespace tutti::sim
