#include "src/ir/chunking.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace tutti::ir {
namespace {

/// Deals whole units to chunks one at a time, the last chunks first, then cuts the last one short.
std::vector<std::size_t> reference_sizes(std::size_t count, std::size_t element_bytes,
                                         std::uint32_t chunks) {
  std::size_t unit = std::max<std::size_t>(1, 64 / element_bytes);
  if ((count + unit - 1) / unit < chunks) unit = 1;
  const std::size_t units = (count + unit - 1) / unit;
  std::vector<std::size_t> sizes(chunks, 0);
  for (std::size_t i = 0; i < units; ++i) sizes[chunks - 1 - i % chunks] += unit;
  sizes[chunks - 1] -= units * unit - count;
  return sizes;
}

void check_chunks(std::size_t count, std::size_t element_bytes, std::uint32_t chunks) {
  SCOPED_TRACE(testing::Message() << "count=" << count << " element_bytes=" << element_bytes
                                  << " chunks=" << chunks);
  const Chunking chunking(count, element_bytes, chunks);
  const std::vector<std::size_t> expected = reference_sizes(count, element_bytes, chunks);
  std::size_t at = 0;
  for (std::uint32_t block = 0; block < 3; ++block) {
    for (std::uint32_t i = 0; i < chunks; ++i) {
      const ElementRange range = chunking.elements(block * chunks + i);
      ASSERT_EQ(range.begin, at);
      ASSERT_EQ(range.size(), expected[i]);
      ASSERT_EQ(chunking.size(block * chunks + i), expected[i]);
      at = range.end;
    }
    ASSERT_EQ(at, (block + 1) * count);
  }
  ASSERT_EQ(chunking.max_size(), *std::max_element(expected.begin(), expected.end()));
}

TEST(Chunking, EqualsThePlainReferenceAndCoversEveryBlockInOrder) {
  const std::uint64_t seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 3000 && !testing::Test::HasFatalFailure(); ++i) {
    const std::size_t count = random() % (std::size_t{1} << (random() % 16));
    const std::size_t element_bytes = std::size_t{1} << (random() % 8);  // 1 .. 128
    check_chunks(count, element_bytes, 1 + static_cast<std::uint32_t>(random() % 70));
  }
}

TEST(Chunking, HandlesEverySmallShape) {
  for (std::size_t count = 0; count < 40; ++count)
    for (std::uint32_t chunks = 1; chunks < 12; ++chunks)
      for (const std::size_t element_bytes : {1, 4, 8, 64})
        check_chunks(count, element_bytes, chunks);
}

TEST(Chunking, BordersAreCacheLinesWhileThereAreEnough) {
  const Chunking chunking(1000, 4, 7);
  for (std::uint32_t c = 0; c < 7; ++c) EXPECT_EQ(chunking.elements(c).begin * 4 % 64, 0U);
}

TEST(Chunking, SizesDifferByAtMostOneUnit) {
  for (std::size_t count = 0; count < 3000; count += 7) {
    for (std::uint32_t chunks = 1; chunks < 20; ++chunks) {
      const Chunking chunking(count, 8, chunks);
      std::size_t smallest = count;
      std::size_t largest = 0;
      for (std::uint32_t c = 0; c < chunks; ++c) {
        smallest = std::min(smallest, chunking.size(c));
        largest = std::max(largest, chunking.size(c));
      }
      ASSERT_LE(largest - smallest, (count + 7) / 8 < chunks ? 1U : 8U) << count << " " << chunks;
    }
  }
}

TEST(Chunking, WithNothingToShareEveryChunkIsEmpty) {
  const Chunking chunking(0, 4, 5);
  for (std::uint32_t c = 0; c < 15; ++c) EXPECT_EQ(chunking.elements(c), (ElementRange{0, 0}));
  EXPECT_EQ(chunking.max_size(), 0U);
}

TEST(Chunking, SharesOutFewElementsOneByOne) {
  const Chunking chunking(3, 4, 8);
  std::size_t total = 0;
  for (std::uint32_t c = 0; c < 8; ++c) {
    EXPECT_LE(chunking.size(c), 1U);
    total += chunking.size(c);
  }
  EXPECT_EQ(total, 3U);
}

TEST(Chunking, DoesNotOverflowOnTheLargestBuffers) {
  const std::size_t count = (std::size_t{1} << 50) + 3;
  const Chunking chunking(count, 1, 1U << 20);
  EXPECT_EQ(chunking.elements(0).begin, 0U);
  EXPECT_EQ(chunking.elements((1U << 20) - 1).end, count);
}

}  // namespace
}  // namespace tutti::ir
