#include "tools/bench/data.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "src/base/result.hpp"

namespace tutti::bench {
namespace {

constexpr Rank kRankCounts[] = {1, 2, 3, 4, 5, 7, 8, 11, 16, 17, 33, 64};

/// One combining step as a library does it: in the type itself, rounding after each step. Sums and
/// products that the type cannot hold exactly yield nullopt.
std::optional<Bits> combine(DataType type, ReduceOp op, Bits a, Bits b) {
  if (!is_float(type)) {
    switch (op) {
      case ReduceOp::kProd:
        return wrap(type, a * b);
      case ReduceOp::kMax:
      case ReduceOp::kMin: {
        const bool a_less = is_signed(type) ? extend(type, a) < extend(type, b) : a < b;
        return a_less == (op == ReduceOp::kMin) ? a : b;
      }
      default:
        return wrap(type, a + b);
    }
  }
  const double x = decode(type, a);
  const double y = decode(type, b);
  switch (op) {
    case ReduceOp::kProd:
      return encode(type, x * y);
    case ReduceOp::kMax:
      return encode(type, std::max(x, y));
    case ReduceOp::kMin:
      return encode(type, std::min(x, y));
    default:
      return encode(type, x + y);
  }
}

/// The whole reduction in a random order and grouping.
std::optional<Bits> reduce_in_any_order(DataType type, ReduceOp op, std::vector<Bits> parts,
                                        std::mt19937& random) {
  while (parts.size() > 1) {
    std::ranges::shuffle(parts, random);
    const auto combined = combine(type, op, parts[parts.size() - 2], parts.back());
    if (!combined) return std::nullopt;
    parts.pop_back();
    parts.back() = *combined;
  }
  return parts[0];
}

std::optional<Bits> scaled(DataType type, Bits value, int factor) {
  if (!is_float(type)) return wrap(type, value * static_cast<Bits>(factor));
  return encode(type, decode(type, value) * factor);
}

std::optional<Bits> divided(DataType type, Bits value, Rank by) {
  if (is_float(type)) return encode(type, decode(type, value) / by);
  if (is_signed(type)) return wrap(type, static_cast<std::uint64_t>(extend(type, value) / by));
  return value / static_cast<Bits>(by);
}

class PaletteTest : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  DataType type_ = static_cast<DataType>(std::get<0>(GetParam()));
  ReduceOp op_ = static_cast<ReduceOp>(std::get<1>(GetParam()));
};

INSTANTIATE_TEST_SUITE_P(
    EveryTypeAndOp, PaletteTest,
    testing::Combine(testing::Range(0, kDataTypes), testing::Range(0, kReduceOps)),
    [](const auto& info) {
      return std::string(name_of(static_cast<DataType>(std::get<0>(info.param)))) + "_" +
             std::string(name_of(static_cast<ReduceOp>(std::get<1>(info.param))));
    });

TEST_P(PaletteTest, IsExactInEveryOrderAndGrouping) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  for (const Rank n : kRankCounts) {
    const Palette palette(type_, op_, n);
    for (int trial = 0; trial < 100; ++trial) {
      const Palette::Draw draw = palette.draw(random(), random());
      std::vector<Bits> parts;
      for (Rank rank = 0; rank < n; ++rank) {
        const int factor = op_ == ReduceOp::kPreMulSum ? mulsum_factor(rank) : 1;
        const auto part = scaled(type_, palette.input(rank, draw), factor);
        ASSERT_TRUE(part) << n << " ranks, rank " << rank;
        parts.push_back(*part);
      }
      auto result = reduce_in_any_order(type_, op_, parts, random);
      ASSERT_TRUE(result) << n << " ranks: a partial result is not representable";
      if (op_ == ReduceOp::kAvg) result = divided(type_, *result, n);
      ASSERT_TRUE(result);
      EXPECT_EQ(element_text(type_, *result), element_text(type_, palette.result(draw))) << n;
      EXPECT_EQ(*result, palette.result(draw)) << n << " ranks";
    }
  }
}

TEST_P(PaletteTest, NoticesAMissingOrRepeatedRankInMostElements) {
  if (op_ == ReduceOp::kMax || op_ == ReduceOp::kMin) return;  // extremes ignore most ranks
  constexpr Rank kRanks = 4;
  const Palette palette(type_, op_, kRanks);
  std::mt19937 random(1);
  int noticed = 0;
  constexpr int kTrials = 200;
  for (int index = 0; index < kTrials; ++index) {
    const Palette::Draw draw = palette.draw(static_cast<std::uint64_t>(index), 7);
    std::vector<Bits> parts;
    for (Rank rank = 0; rank < kRanks; ++rank) {
      const Rank taken = rank == 2 ? 1 : rank;  // rank 1 twice, rank 2 never
      const int factor = op_ == ReduceOp::kPreMulSum ? mulsum_factor(rank) : 1;
      parts.push_back(scaled(type_, palette.input(taken, draw), factor).value_or(0));
    }
    auto result = reduce_in_any_order(type_, op_, parts, random);
    if (result && op_ == ReduceOp::kAvg) result = divided(type_, *result, kRanks);
    if (result != palette.result(draw)) ++noticed;
  }
  EXPECT_GT(noticed, kTrials / 4);
}

/// Every rank's buffers, filled, and the receive buffers as a right library leaves them.
struct World {
  explicit World(const Shape& shape, std::uint64_t iteration) : data(shape) {
    for (Rank rank = 0; rank < shape.ranks; ++rank) {
      send.emplace_back(blocks_of(shape, rank).send * shape.block_bytes());
      recv.emplace_back(blocks_of(shape, rank).recv * shape.block_bytes());
      data.fill(rank, iteration, send.back().data());
    }
  }

  /// Moves blocks as the collective's definition says, written out per collective.
  void move_blocks() {
    const Shape& shape = data.shape();
    const std::size_t bytes = shape.block_bytes();
    const auto root = static_cast<std::size_t>(shape.root);
    const auto n = static_cast<std::size_t>(shape.ranks);
    const auto copy = [&](std::size_t to, std::size_t to_block, std::size_t from,
                          std::size_t block) {
      std::memcpy(recv[to].data() + to_block * bytes, send[from].data() + block * bytes, bytes);
    };
    for (std::size_t a = 0; a < n; ++a) {
      if (shape.test == Collective::kBroadcast) copy(a, 0, root, 0);
      if (shape.test == Collective::kScatter) copy(a, 0, root, a);
      if (shape.test == Collective::kGather) copy(root, a, a, 0);
      if (shape.test == kSendRecv) copy((a + 1) % n, 0, a, 0);
      for (std::size_t b = 0; b < n; ++b) {
        if (shape.test == Collective::kAllGather) copy(a, b, b, 0);
        if (shape.test == Collective::kAllToAll) copy(a, b, b, a);
      }
    }
  }

  Data data;
  std::vector<std::vector<std::byte>> send;
  std::vector<std::vector<std::byte>> recv;
};

constexpr Collective kMoves[] = {Collective::kBroadcast, Collective::kScatter,  Collective::kGather,
                                 Collective::kAllGather, Collective::kAllToAll, kSendRecv};

TEST(Data, AcceptsWhatEachMovingCollectiveShouldYield) {
  for (const Collective test : kMoves) {
    for (const std::size_t count : {0, 1, 3, 8, 1001}) {
      const Shape shape{test, DataType::kFloat16, ReduceOp::kSum, 5, 3, count};
      World world(shape, 11);
      world.move_blocks();
      for (Rank rank = 0; rank < shape.ranks; ++rank) {
        EXPECT_EQ(
            world.data.check(rank, 11, world.recv[static_cast<std::size_t>(rank)].data()).wrong, 0u)
            << test_name(test) << " count " << count << " rank " << rank;
      }
    }
  }
}

TEST(Data, RejectsTheResultOfAnotherIteration) {
  for (const Collective test : kMoves) {
    const Shape shape{test, DataType::kInt32, ReduceOp::kSum, 4, 0, 64};
    World world(shape, 11);
    world.move_blocks();
    EXPECT_GE(world.data.check(0, 12, world.recv[0].data()).wrong, 60u) << test_name(test);
  }
}

TEST(Data, ReportsTheFirstWrongElementWithBothValues) {
  const Shape shape{Collective::kAllGather, DataType::kInt8, ReduceOp::kSum, 3, 0, 21};
  World world(shape, 1);
  world.move_blocks();
  auto& recv = world.recv[2];
  recv[30] ^= std::byte{0xff};
  recv[62] ^= std::byte{0x01};
  const Findings findings = world.data.check(2, 1, recv.data());
  EXPECT_EQ(findings.wrong, 2u);
  ASSERT_TRUE(findings.first);
  EXPECT_EQ(findings.first->index, 30u);
  EXPECT_EQ(findings.first->got, static_cast<Bits>(recv[30]));
  EXPECT_EQ(findings.first->expected, static_cast<Bits>(recv[30] ^ std::byte{0xff}));
}

TEST(Data, ChecksReductionsElementByElement) {
  for (const Collective test :
       {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter}) {
    const Shape shape{test, DataType::kFloat32, ReduceOp::kSum, 4, 2, 100};
    World world(shape, 5);
    auto& recv = world.recv[2];
    const std::size_t first = test == Collective::kReduceScatter ? 200 : 0;
    for (std::size_t i = 0; i < shape.count; ++i) {
      float sum = 0;
      for (const auto& send : world.send) {
        float value = 0;
        std::memcpy(&value, send.data() + (first + i) * sizeof(float), sizeof(float));
        sum += value;
      }
      std::memcpy(recv.data() + i * sizeof(float), &sum, sizeof(float));
    }
    EXPECT_EQ(world.data.check(2, 5, recv.data()).wrong, 0u) << test_name(test);
    recv[17 * sizeof(float) + 1] ^= std::byte{4};
    const Findings findings = world.data.check(2, 5, recv.data());
    EXPECT_EQ(findings.wrong, 1u) << test_name(test);
    ASSERT_TRUE(findings.first);
    EXPECT_EQ(findings.first->index, 17u);
  }
}

TEST(Guard, CountsBytesWrittenBeyondABuffer) {
  std::byte guard[kGuardBytes];
  set_guard(guard);
  EXPECT_EQ(broken_guard_bytes(guard), 0u);
  guard[0] = guard[63] = std::byte{0};
  EXPECT_EQ(broken_guard_bytes(guard), 2u);
}

TEST(Numbers, EveryNarrowFloatReadsBackAsItself) {
  for (const DataType type :
       {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8e4m3, DataType::kFloat8e5m2}) {
    const Bits end = Bits{1} << (8 * size_of(type));
    for (Bits bits = 0; bits < end; ++bits) {
      const double value = decode(type, bits);
      if (std::isfinite(value)) {
        ASSERT_EQ(encode(type, value), bits) << name_of(type);
      }
    }
  }
}

TEST(Numbers, DecodesKnownValues) {
  EXPECT_EQ(decode(DataType::kFloat16, 0x3c00), 1);
  EXPECT_EQ(decode(DataType::kFloat16, 0x7bff), 65504);
  EXPECT_EQ(decode(DataType::kBfloat16, 0xc040), -3);
  EXPECT_EQ(decode(DataType::kFloat8e4m3, 0x7e), 448);
  EXPECT_EQ(decode(DataType::kFloat8e4m3, 0x01), std::ldexp(1, -9));
  EXPECT_TRUE(std::isnan(decode(DataType::kFloat8e4m3, 0x7f)));
  EXPECT_EQ(decode(DataType::kFloat8e5m2, 0x7b), 57344);
  EXPECT_TRUE(std::isinf(decode(DataType::kFloat8e5m2, 0xfc)));
  EXPECT_EQ(decode(DataType::kFloat32, 0x3fc00000), 1.5);
  EXPECT_EQ(decode(DataType::kFloat64, 0xbff8000000000000), -1.5);
}

TEST(Numbers, RefusesWhatATypeCannotHold) {
  EXPECT_FALSE(encode(DataType::kFloat8e5m2, 9));
  EXPECT_FALSE(encode(DataType::kFloat8e4m3, 449));
  EXPECT_FALSE(encode(DataType::kFloat8e4m3, 512));
  EXPECT_FALSE(encode(DataType::kFloat16, 65536));
  EXPECT_FALSE(encode(DataType::kFloat32, 16777217));
}

TEST(Numbers, ShowsIntegersWithTheirSign) {
  EXPECT_EQ(element_text(DataType::kInt8, 0xff), "-1");
  EXPECT_EQ(element_text(DataType::kUint8, 0xff), "255");
  EXPECT_EQ(element_text(DataType::kInt64, ~0ULL), "-1");
  EXPECT_EQ(element_text(DataType::kUint64, ~0ULL), "18446744073709551615");
}

}  // namespace
}  // namespace tutti::bench
