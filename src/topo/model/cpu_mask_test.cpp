#include "src/topo/model/cpu_mask.hpp"

#include <gtest/gtest.h>

namespace tutti::topo {
namespace {

TEST(CpuMask, ReadsLinuxListsAndWritesThemBack) {
  const auto mask = CpuMask::from_list("0-3,8,40-41");
  ASSERT_TRUE(mask);
  EXPECT_EQ(mask->list(), "0-3,8,40-41");
  EXPECT_EQ(mask->mask(), "00000300,0000010f");
  EXPECT_EQ(mask->size(), 7U);
  EXPECT_TRUE(CpuMask::from_list("")->empty());
}

TEST(CpuMask, RefusesWhatIsNoList) {
  for (const char* text : {"x", "3-1", "1-", "-1", "0 1", "99999999", "0-99999999", "1,,2"})
    EXPECT_FALSE(CpuMask::from_list(text)) << text;
}

TEST(CpuMask, ReadsHwlocsMasks) {
  EXPECT_EQ(CpuMask::from_hwloc("0x00000003")->list(), "0-1");
  EXPECT_EQ(CpuMask::from_hwloc("0x00000001,0x80000000")->list(), "31-32");
  EXPECT_EQ(CpuMask::from_hwloc("0x00000001,,0x00000001")->list(), "0,64");
  EXPECT_EQ(CpuMask::from_hwloc("0xf...f,0x00000001")->list(), "0");
  EXPECT_TRUE(CpuMask::from_hwloc("0x0")->empty());
  for (const char* text : {"3", "0x", "0xg", "0x1ffffffff", "0x1,0xf...f"})
    EXPECT_FALSE(CpuMask::from_hwloc(text)) << text;
}

TEST(CpuMask, ReadsTheMasksThatItWrites) {
  for (const char* list : {"", "0", "31-32", "0-3,8,40-41,1000"}) {
    const CpuMask mask = *CpuMask::from_list(list);
    EXPECT_EQ(CpuMask::from_mask(mask.mask()), mask) << list;
  }
  EXPECT_EQ(CpuMask::from_mask("f,1")->list(), "0,32-35");
  for (const char* text : {"0x1", "g", "1ffffffff", "1,,1", "1 1"})
    EXPECT_FALSE(CpuMask::from_mask(text)) << text;
}

TEST(CpuMask, TakesWordsOf64Bits) {
  EXPECT_EQ(CpuMask::from_words(std::vector<std::uint64_t>{1ULL << 40, 2, 0}).list(), "40,65");
}

TEST(CpuMask, KnowsWhatItContains) {
  const CpuMask all = *CpuMask::from_list("0-63"), some = *CpuMask::from_list("33,40");
  EXPECT_TRUE(some.is_within(all));
  EXPECT_FALSE(all.is_within(some));
  EXPECT_TRUE(some.contains(33));
  EXPECT_FALSE(some.contains(1000));
  EXPECT_EQ(some.lowest(), 33U);
  EXPECT_TRUE(all.intersects(some));
  EXPECT_FALSE(some.intersects(*CpuMask::from_list("0-32,100")));
}

}  // namespace
}  // namespace tutti::topo
