#include "training/buckets.hpp"

#include <gmock/gmock.h>

namespace tutti::training {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ParameterTable five() {
  return *ParameterTable::create({{"a", {4}}, {"b", {4}}, {"c", {10}}, {"d", {2}}, {"e", {3}}});
}

std::vector<std::vector<ParameterId>> members(const std::vector<Group>& groups) {
  std::vector<std::vector<ParameterId>> all;
  for (const Group& group : groups) all.push_back(group.parameters);
  return all;
}

TEST(Buckets, AreSmallFirstAndFilledInTheOrderOfGradients) {
  const auto table = five();
  const auto buckets = cut_buckets(table, reverse_order(table), {4, 12});
  ASSERT_TRUE(buckets) << buckets.error().what;
  EXPECT_THAT(members(*buckets), ElementsAre(ElementsAre(4, 3), ElementsAre(2, 1), ElementsAre(0)));
}

TEST(Buckets, HoldAParameterThatIsLargerThanTheyShouldBe) {
  const auto table = five();
  const auto buckets = cut_buckets(table, reverse_order(table), {1, 1});
  EXPECT_THAT(members(*buckets), ElementsAre(ElementsAre(4), ElementsAre(3), ElementsAre(2),
                                             ElementsAre(1), ElementsAre(0)));
}

TEST(Buckets, MayBeOne) {
  const auto table = five();
  EXPECT_EQ(cut_buckets(table, reverse_order(table), {1000, 1000})->size(), 1U);
}

TEST(Buckets, WantEveryParameterOnce) {
  const auto table = five();
  const auto refusal = [&](std::vector<ParameterId> order, BucketLimits limits = {}) {
    const auto cut = cut_buckets(table, order, limits);
    return cut ? "" : cut.error().what;
  };
  EXPECT_THAT(refusal({0, 1, 2, 3}), HasSubstr("4 parameters of 5"));
  EXPECT_THAT(refusal({0, 1, 2, 3, 3}), HasSubstr("'d' twice"));
  EXPECT_THAT(refusal({0, 1, 2, 3, 5}), HasSubstr("names parameter 5"));
  EXPECT_THAT(refusal({0, 1, 2, 3, 4}, {0, 5}), HasSubstr("0 elements"));
}

}  // namespace
}  // namespace tutti::training
