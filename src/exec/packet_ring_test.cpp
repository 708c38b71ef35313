#include "src/exec/packet_ring.hpp"

#include <map>
#include <random>

#include <gtest/gtest.h>

namespace tutti::exec {
namespace {

TEST(PacketRing, NamesTheLatestCallWhosePacketWouldBeOverwritten) {
  std::mt19937 random(1);
  const std::size_t ring_bytes = packet_ring_bytes(false);
  PacketRing ring(ring_bytes);
  std::map<std::uint64_t, std::pair<std::size_t, std::size_t>> lies;  // call -> begin, end
  for (std::uint64_t call = 1; call < 5000; call += 1 + random() % 3) {
    const std::size_t bytes = 1 + random() % kPacketBytes;
    const std::uint64_t in_the_way = ring.in_the_way(bytes);
    const std::size_t begin = ring.take(call, bytes);
    ASSERT_EQ(begin % kLine, 0U);
    ASSERT_LE(begin + bytes, ring_bytes);
    std::erase_if(lies, [&](const auto& known) { return known.first <= in_the_way; });
    for (const auto& [other, place] : lies)
      ASSERT_TRUE(begin + bytes <= place.first || place.second <= begin)
          << "call " << call << " overwrites " << other;
    ASSERT_TRUE(in_the_way == 0 || call - in_the_way >= 6) << call;
    lies[call] = {begin, begin + bytes};
  }
}

TEST(PacketRing, GoesAroundAllOfItWhateverThePacketsSize) {
  for (const std::size_t bytes : {std::size_t{2000}, kPacketBytes}) {
    const std::size_t ring_bytes = packet_ring_bytes(true);
    PacketRing ring(ring_bytes);
    std::size_t furthest = 0;
    for (std::uint64_t call = 1; call <= ring_bytes / 1024; ++call)
      furthest = std::max(furthest, ring.take(call, bytes) + bytes);
    EXPECT_GT(furthest, ring_bytes - 2 * bytes);
  }
}

TEST(PacketRing, IsSmallWhereRanksShareACache) {
  EXPECT_LE(packet_ring_bytes(false), packet_ring_bytes(true));
  EXPECT_EQ(packet_ring_bytes(true) % kPacketBytes, 0U);
}

}  // namespace
}  // namespace tutti::exec
