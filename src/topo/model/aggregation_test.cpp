#include "src/topo/model/aggregation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/topo/model/builder.hpp"

namespace tutti::topo {
namespace {

using testing::HasSubstr;

TEST(Aggregation, OfTextIsThatOfTheTextThatIsWrittenOfIt) {
  const Aggregation all = {.trees = 2,
                           .outstanding = 4,
                           .latency = 0.3,
                           .rate = 382.5,
                           .window = 131072,
                           .sums_in_parts = true};
  EXPECT_EQ(text_of(all), "trees=2,outstanding=4,latency=0.3,rate=382.5,window=131072,parts=1");
  for (const Aggregation& aggregation : {all, Aggregation{}, Aggregation{.trees = 7}}) {
    const auto parsed = parse_aggregation(text_of(aggregation));
    ASSERT_TRUE(parsed) << parsed.error().what;
    EXPECT_EQ(*parsed, aggregation);
  }
}

TEST(Aggregation, OfWrongTextNamesWhatIsWrong) {
  const auto expect = [](std::string_view text, std::string_view words) {
    const auto parsed = parse_aggregation(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
    EXPECT_THAT(parsed.error().what, HasSubstr(words)) << text;
  };
  expect("tree=1", "`tree=1` is none of trees");
  expect("trees=0", "trees must be a whole number from 1 to 1024, not `0`");
  expect("trees=1.5", "whole number");
  expect("trees", "not ``");
  expect("latency=-1", "latency must be a number from 0");
  expect("window=nan", "not `nan`");
  expect("rate=1,rate=2", "`rate` is there twice");
  expect("rate=1,,", "`` is none of");
}

TEST(Aggregation, WithAWindowHasAtMostItInARoundTrip) {
  EXPECT_DOUBLE_EQ(Aggregation{}.rate_with(10), 0);
  EXPECT_DOUBLE_EQ(Aggregation{.window = 131072}.rate_with(10), 13.1072);
  EXPECT_DOUBLE_EQ((Aggregation{.rate = 12.5, .window = 131072}.rate_with(10)), 12.5);
  EXPECT_DOUBLE_EQ((Aggregation{.rate = 12.5, .window = 65536}.rate_with(10)), 6.5536);
}

TEST(Aggregation, OfANodeIsThatOfItsAttribute) {
  Parts parts;
  parts.nodes = {{NodeKind::kSwitch, kNoHost, "plain", {}},
                 {NodeKind::kSwitch, kNoHost, "adds", {{"aggregation", "trees=3"}}},
                 {NodeKind::kSwitch, kNoHost, "wrong", {{"aggregation", "trees=x"}}}};
  const auto topology = Topology::create(std::move(parts));
  ASSERT_TRUE(topology) << topology.error().what;
  const auto plain = aggregation_of(*topology, 0), adds = aggregation_of(*topology, 1);
  ASSERT_TRUE(plain && adds);
  EXPECT_FALSE(*plain);
  EXPECT_EQ(**adds, Aggregation{.trees = 3});
  const auto wrong = aggregation_of(*topology, 2);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().what, HasSubstr("`aggregation` of wrong: trees must be"));
}

}  // namespace
}  // namespace tutti::topo
