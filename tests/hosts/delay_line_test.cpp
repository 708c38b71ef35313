#include "tests/hosts/delay_line.hpp"

#include <gtest/gtest.h>

namespace tutti::testing {
namespace {

using std::chrono::microseconds;

constexpr TimePoint kStart = TimePoint(std::chrono::seconds(1));

/// Puts in a packet whose first byte is `mark`.
void put(DelayLine& line, int mark, std::size_t bytes, TimePoint when) {
  line.free_slot()[0] = static_cast<std::byte>(mark);
  line.accept(bytes, when);
}

TEST(DelayLine, HoldsEachPacketForTheLatency) {
  DelayLine line({.latency = microseconds(1000)}, 4);
  EXPECT_FALSE(line.next_due());
  put(line, 1, 100, kStart);
  put(line, 2, 9000, kStart + microseconds(300));
  EXPECT_EQ(line.next_due(), kStart + microseconds(1000));
  line.pop();
  EXPECT_EQ(line.next_due(), kStart + microseconds(1300));
  line.pop();
  EXPECT_TRUE(line.empty());
}

TEST(DelayLine, LetsPacketsLeaveOneAfterAnotherAtTheRate) {
  DelayLine line({.latency = microseconds(50), .ns_per_byte = 8}, 4);  // 1 Gbit/s
  put(line, 1, 1000, kStart);
  put(line, 2, 500, kStart);
  put(line, 3, 500, kStart + microseconds(100));
  for (const int due : {8 + 50, 8 + 4 + 50, 100 + 4 + 50}) {
    EXPECT_EQ(line.next_due(), kStart + microseconds(due));
    line.pop();
  }
}

TEST(DelayLine, KeepsOrderSizesAndContentsAsItGoesRoundItsSlots) {
  DelayLine line({.latency = microseconds(1)}, 3);
  int in = 0;
  for (int out = 0; out < 20; ++out) {
    while (!line.full()) {
      put(line, in, static_cast<std::size_t>(in) + 1, kStart + microseconds(in));
      ++in;
    }
    ASSERT_EQ(in, out + 3);
    ASSERT_EQ(line.front().size(), static_cast<std::size_t>(out) + 1);
    ASSERT_EQ(line.front()[0], static_cast<std::byte>(out));
    line.pop();
    ASSERT_FALSE(line.full());
  }
}

}  // namespace
}  // namespace tutti::testing
