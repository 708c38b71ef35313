#include "src/base/memory_map.hpp"

#include <array>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace tutti {
namespace {

// Readable and writable up to 3000, a gap, read-only and then writable memory with no gap between.
constexpr std::string_view kMaps =
    "1000-2000 rw-p 00000000 00:00 0 \n"
    "2000-3000 rw-p 00001000 08:01 4711                       /usr/lib/a name with spaces.so\n"
    "5000-6000 r--p 00000000 00:00 0\n"
    "6000-7000 rw-s 00000000 00:00 0 [heap]\n"
    "7000-8000 ---p 00000000 00:00 0\n"
    "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";

const void* at(std::uintptr_t address) { return reinterpret_cast<const void*>(address); }

class ParsedMap : public testing::Test {
 protected:
  std::optional<std::uintptr_t> unreadable(std::uintptr_t begin, std::size_t bytes) const {
    return map_.first_without(Access::kRead, at(begin), bytes);
  }
  std::optional<std::uintptr_t> unwritable(std::uintptr_t begin, std::size_t bytes) const {
    return map_.first_without(Access::kWrite, at(begin), bytes);
  }
  const MemoryMap map_ = *MemoryMap::parse(kMaps);
};

TEST_F(ParsedMap, AllowsWhatLiesInOneMappingOrInSeveralWithoutAGap) {
  EXPECT_EQ(unwritable(0x1000, 0x1000), std::nullopt);
  EXPECT_EQ(unwritable(0x1fff, 2), std::nullopt);
  EXPECT_EQ(unwritable(0x1000, 0x2000), std::nullopt);
  EXPECT_EQ(unreadable(0x5000, 0x2000), std::nullopt);
}

TEST_F(ParsedMap, NamesTheFirstAddressThatIsNotMapped) {
  EXPECT_EQ(unreadable(0, 1), 0U);
  EXPECT_EQ(unreadable(0x2fff, 2), 0x3000U);
  EXPECT_EQ(unreadable(0x4000, 0x2000), 0x4000U);
  EXPECT_EQ(unreadable(0x9000, 1), 0x9000U);
}

TEST_F(ParsedMap, NamesTheFirstAddressThatIsMappedForLess) {
  EXPECT_EQ(unwritable(0x5800, 0x100), 0x5800U);
  EXPECT_EQ(unreadable(0x6fff, 2), 0x7000U);
}

TEST_F(ParsedMap, AllowsNoBytesAnywhereAndNoRangeThatWrapsAround) {
  EXPECT_EQ(unreadable(0x4000, 0), std::nullopt);
  EXPECT_EQ(unreadable(0, 0), std::nullopt);
  EXPECT_EQ(unreadable(UINTPTR_MAX - 1, 100), UINTPTR_MAX - 1);
  EXPECT_EQ(unreadable(0x1000, SIZE_MAX), 0x3000U);
}

TEST(MemoryMap, RefusesTextThatIsNoListOfMappings) {
  for (const char* text : {"nonsense\n", "1000 2000 rw-p\n", "1000-2000\n", "1000-\n", "\n"})
    EXPECT_FALSE(MemoryMap::parse(text)) << text;
}

TEST(MemoryMap, OfThisProcessKnowsItsStackItsHeapAndItsConstants) {
  const std::array<int, 1000> on_stack{};
  const std::vector<int> on_heap(100'000);
  const auto map = MemoryMap::of_this_process();
  ASSERT_TRUE(map) << map.error().what;
  EXPECT_EQ(map->first_without(Access::kWrite, on_stack.data(), sizeof on_stack), std::nullopt);
  EXPECT_EQ(map->first_without(Access::kWrite, on_heap.data(), 4 * on_heap.size()), std::nullopt);
  EXPECT_EQ(map->first_without(Access::kRead, kMaps.data(), kMaps.size()), std::nullopt);
}

TEST(MemoryMap, OfThisProcessSeesWhereMemoryEndsAndWhatIsReadOnly) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const mapped = ::mmap(nullptr, 3 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped);
  ASSERT_EQ(::mprotect(mapped, page, PROT_READ | PROT_WRITE), 0);
  ASSERT_EQ(::munmap(static_cast<char*>(mapped) + 2 * page, page), 0);
  const auto map = MemoryMap::of_this_process();
  ASSERT_TRUE(map) << map.error().what;
  EXPECT_EQ(map->first_without(Access::kWrite, mapped, page), std::nullopt);
  EXPECT_EQ(map->first_without(Access::kWrite, mapped, page + 1), begin + page);
  EXPECT_EQ(map->first_without(Access::kRead, mapped, 2 * page), std::nullopt);
  EXPECT_EQ(map->first_without(Access::kRead, mapped, 2 * page + 1), begin + 2 * page);
  ::munmap(mapped, 2 * page);
}

}  // namespace
}  // namespace tutti
