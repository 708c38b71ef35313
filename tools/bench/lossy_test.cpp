#include "tools/bench/lossy.hpp"

#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "src/codec/make_format.hpp"

namespace tutti::bench {
namespace {

codec::FormatTraits traits_of(const char* format) {
  return (*codec::make_format(format))->traits();
}

Shape shape_of(Collective test, std::size_t count) {
  return {test, DataType::kFloat32, ReduceOp::kSum, 3, 0, count};
}

/// What rank 1 gets of an all-reduce without any loss.
std::vector<float> exact_sum(const LossyData& data, std::size_t count) {
  std::vector<float> sum(count);
  for (Rank rank = 0; rank < 3; ++rank) {
    std::vector<float> input(count);
    data.fill(rank, 7, reinterpret_cast<std::byte*>(input.data()));
    for (std::size_t i = 0; i < count; ++i) sum[i] += input[i];
  }
  return sum;
}

TEST(LossyData, FindsNothingWrongInExactResultsAndMeasuresWhatIsOff) {
  const LossyData data(shape_of(Collective::kAllReduce, 5000), traits_of("int8"), false);
  std::vector<float> result = exact_sum(data, 5000);
  Losses losses;
  const auto check = [&] {
    losses = {};
    return data.check(1, 7, reinterpret_cast<const std::byte*>(result.data()), losses).wrong;
  };
  EXPECT_EQ(check(), 0U);
  EXPECT_LT(losses.max_relative(), 1e-6);
  const double largest = losses.largest_wanted, all = losses.sum_wanted;
  result[4321] += 0.05F;  // within what int8 may lose
  EXPECT_EQ(check(), 0U);
  EXPECT_NEAR(losses.max_relative(), 0.05 / largest, 1e-5);
  EXPECT_NEAR(losses.mean_relative(), 0.05 / all, 1e-6);
}

TEST(LossyData, FindsWhatIsOffByMoreThanTheFormatAllows) {
  const LossyData data(shape_of(Collective::kAllReduce, 100), traits_of("int8"), false);
  for (const float off : {1.0F, -1.0F, NAN, INFINITY}) {
    std::vector<float> result = exact_sum(data, 100);
    result[63] += off;
    Losses losses;
    const Findings found =
        data.check(1, 7, reinterpret_cast<const std::byte*>(result.data()), losses);
    EXPECT_EQ(found.wrong, 1U) << off;
    ASSERT_TRUE(found.first);
    EXPECT_EQ(found.first->index, 63U);
  }
}

TEST(LossyData, FollowsWhatCollectivesMove) {
  const LossyData data(shape_of(Collective::kAllGather, 50), traits_of("bf16"), false);
  std::vector<float> gathered(150);
  for (Rank rank = 0; rank < 3; ++rank)
    data.fill(rank, 2,
              reinterpret_cast<std::byte*>(&gathered[static_cast<std::size_t>(rank) * 50]));
  Losses losses;
  EXPECT_EQ(data.check(0, 2, reinterpret_cast<const std::byte*>(gathered.data()), losses).wrong,
            0U);
  std::swap(gathered[3], gathered[53]);
  EXPECT_EQ(data.check(0, 2, reinterpret_cast<const std::byte*>(gathered.data()), losses).wrong,
            2U);
}

}  // namespace
}  // namespace tutti::bench
