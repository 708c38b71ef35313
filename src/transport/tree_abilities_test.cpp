#include "src/transport/tree_abilities.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(TreeAbilities, AreWhatBothCan) {
  TreeAbilities one = TreeAbilities::all(), other;
  EXPECT_TRUE(one.adds(DataType::kFloat8e5m2, ReduceOp::kPreMulSum));
  EXPECT_TRUE(one.does(TreeForm::kFromAll));
  other.add(DataType::kInt8, ReduceOp::kMin);
  other.add(TreeForm::kSumToOne);
  other.least_bits(16);
  one &= other;
  EXPECT_EQ(one, other);
  EXPECT_TRUE(one.adds(DataType::kInt8, ReduceOp::kMin));
  EXPECT_FALSE(one.adds(DataType::kInt8, ReduceOp::kMax));
  EXPECT_FALSE(one.adds(DataType::kUint8, ReduceOp::kMin));
  EXPECT_FALSE(one.does(TreeForm::kSumToAll));
  EXPECT_EQ(one.least_bits(), 16U);
}

TEST(TreeAbilities, SurviveTheJourney) {
  TreeAbilities some;
  some.add(DataType::kBfloat16, ReduceOp::kSum);
  some.add(TreeForm::kFromOne);
  for (const TreeAbilities& each : {TreeAbilities(), some, TreeAbilities::all()}) {
    const Blob bytes = encode(each);
    EXPECT_EQ(bytes.size(), kTreeAbilitiesBytes);
    const auto decoded = decode_tree_abilities(bytes);
    ASSERT_TRUE(decoded) << decoded.error().what;
    EXPECT_EQ(*decoded, each);
  }
}

TEST(TreeAbilities, OfNoSenseAreRefused) {
  Blob bytes = encode(TreeAbilities::all());
  EXPECT_FALSE(decode_tree_abilities(std::span(bytes).first(bytes.size() - 1)));
  for (const std::size_t field : {std::size_t{1}, std::size_t{2}}) {
    Blob wrong = bytes;
    wrong[wrong.size() - field] = std::byte{0xff};
    EXPECT_FALSE(decode_tree_abilities(wrong));
  }
  EXPECT_FALSE(decode_tree_abilities({}));
}

}  // namespace
}  // namespace tutti
