#include "training/parameters.hpp"

#include <gmock/gmock.h>

namespace tutti::training {
namespace {

using ::testing::HasSubstr;

std::string table_refusal(std::vector<Parameter> parameters) {
  const auto made = ParameterTable::create(std::move(parameters));
  return made ? "" : made.error().what;
}

TEST(ParameterTable, KnowsSizesAndNames) {
  const auto table = ParameterTable::create({{"w", {3, 4}}, {"scale", {}}, {"b", {5}, false}});
  ASSERT_TRUE(table) << table.error().what;
  EXPECT_EQ(table->size(), 3U);
  EXPECT_EQ(table->elements(0), 12U);
  EXPECT_EQ(table->elements(1), 1U);
  EXPECT_EQ(table->elements(), 18U);
  EXPECT_EQ(table->find("b"), 2U);
  EXPECT_EQ(table->find("c"), std::nullopt);
}

TEST(ParameterTable, NamesWhatIsWrong) {
  EXPECT_THAT(table_refusal({}), HasSubstr("no parameters"));
  EXPECT_THAT(table_refusal({{"", {1}}}), HasSubstr("parameter 0 has no name"));
  EXPECT_THAT(table_refusal({{"a", {1}}, {"b", {1}}, {"a", {2}}}),
              HasSubstr("parameters 0 and 2 are both named 'a'"));
  EXPECT_THAT(table_refusal({{"a", {2, 0}}}), HasSubstr("'a' of [2, 0]: a dimension is 0"));
  EXPECT_THAT(table_refusal({{"a", {-3}}}), HasSubstr("is -3"));
  EXPECT_THAT(table_refusal({{"a", {std::int64_t{1} << 31, 1 << 20}}}), HasSubstr("2^40"));
  EXPECT_THAT(table_refusal({{"a", {std::int64_t{1} << 40}}, {"b", {1}}}), HasSubstr("up to 'b'"));
  EXPECT_THAT(table_refusal({{std::string(kLongestName + 1, 'x'), {1}}}), HasSubstr("513 bytes"));
}

TEST(ParameterTable, HashesAllThatRanksMustShare) {
  const auto hash = [](std::vector<Parameter> parameters) {
    return ParameterTable::create(std::move(parameters))->hash();
  };
  const auto first = hash({{"a", {2, 3}}, {"b", {4}}});
  EXPECT_EQ(first, hash({{"a", {2, 3}}, {"b", {4}}}));
  EXPECT_NE(first, hash({{"b", {4}}, {"a", {2, 3}}}));
  EXPECT_NE(first, hash({{"a", {3, 2}}, {"b", {4}}}));
  EXPECT_NE(first, hash({{"a", {6}}, {"b", {4}}}));
  EXPECT_NE(first, hash({{"a", {2, 3}}, {"b", {4}, false}}));
  EXPECT_NE(first, hash({{"a", {2, 3}}}));
}

TEST(ParameterTable, TellsWhereTwoDifferFirst) {
  const auto here = *ParameterTable::create({{"a", {2}}, {"b", {3}}});
  EXPECT_EQ(difference(here, here), "");
  EXPECT_EQ(difference(here, *ParameterTable::create({{"a", {2}}, {"b", {4}, false}})),
            "parameter 1 is 'b' of [3] here and 'b' of [4] without decay there");
  EXPECT_THAT(
      difference(here, *ParameterTable::create({{"a", {2}}})),
      HasSubstr("2 parameters here and 1 there; the first that only one has is 'b' of [3]"));
}

}  // namespace
}  // namespace tutti::training
