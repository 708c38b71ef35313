#include "training/flat_layout.hpp"

#include <random>
#include <set>

#include <gmock/gmock.h>

#include "training/buckets.hpp"

namespace tutti::training {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ParameterTable table_of(const std::vector<std::int64_t>& sizes) {
  std::vector<Parameter> parameters;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    parameters.push_back({"p" + std::to_string(i), {sizes[i]}});
  return *ParameterTable::create(std::move(parameters));
}

std::string refusal(std::vector<Group> groups, int shards = 2) {
  const auto made = FlatLayout::create(table_of({5, 7}), std::move(groups), shards);
  return made ? "" : made.error().what;
}

TEST(FlatLayout, PutsParametersBehindEachOtherAndPadsTheEnd) {
  const auto layout = *FlatLayout::create(table_of({5, 40, 7}), {{"a", {1, 0}}, {"b", {2}}}, 2);
  EXPECT_EQ(layout.elements(0), 45U);
  EXPECT_EQ(layout.shard_elements(0), 32U);
  EXPECT_EQ(layout.padded(0), 64U);
  EXPECT_EQ(layout.padded(1), 32U);
  EXPECT_EQ(layout.largest(), 64U);
  EXPECT_EQ(layout.all_padded(), 96U);
  EXPECT_EQ(layout.all_of_a_shard(), 48U);
  EXPECT_EQ(layout.padding(), 44U);
  EXPECT_EQ(layout.offset_of(0), 40U);
  EXPECT_EQ(layout.place_of(0, 3), (Place{0, 43, 1, 11}));
  EXPECT_THAT(layout.pieces(0, 0), ElementsAre(Piece{1, 0, 32, 0}));
  EXPECT_THAT(layout.pieces(0, 1), ElementsAre(Piece{1, 32, 8, 0}, Piece{0, 0, 5, 8}));
  EXPECT_THAT(layout.pieces(1, 1), IsEmpty());
}

TEST(FlatLayout, NamesWhatIsWrong) {
  EXPECT_THAT(refusal({{"a", {0, 1}}}, 0), HasSubstr("0 shards"));
  EXPECT_THAT(refusal({{"a", {0, 1}}, {"b", {}}}), HasSubstr("group 1 ('b') has no parameters"));
  EXPECT_THAT(refusal({{"a", {0}}}), HasSubstr("parameter 'p1' is in no group"));
  EXPECT_THAT(refusal({{"a", {0, 1}}, {"b", {1}}}),
              HasSubstr("parameter 'p1' is in group 'a' and in group 'b'"));
  EXPECT_THAT(refusal({{"a", {0, 2}}}), HasSubstr("names parameter 2, and there are 2"));
}

TEST(FlatLayout, HashesGroupsAndShards) {
  const auto hash = [](std::vector<Group> groups, int shards) {
    return FlatLayout::create(table_of({5, 7}), std::move(groups), shards)->hash();
  };
  const auto first = hash({{"a", {0, 1}}}, 2);
  EXPECT_EQ(first, hash({{"another name", {0, 1}}}, 2));
  EXPECT_NE(first, hash({{"a", {1, 0}}}, 2));
  EXPECT_NE(first, hash({{"a", {0}}, {"b", {1}}}, 2));
  EXPECT_NE(first, hash({{"a", {0, 1}}}, 3));
}

/// A model, cut somehow, over some ranks.
FlatLayout random_layout(std::mt19937_64& random) {
  std::vector<std::int64_t> sizes(1 + random() % 12);
  for (std::int64_t& size : sizes) size = static_cast<std::int64_t>(1 + random() % 200);
  const ParameterTable table = table_of(sizes);
  const BucketLimits limits{1 + random() % 100, 1 + random() % 400};
  return *FlatLayout::create(table, *cut_buckets(table, reverse_order(table), limits),
                             static_cast<int>(1 + random() % 9));
}

TEST(FlatLayout, PlacesEveryElementOnceAndTheShardsShowIt) {
  const std::uint64_t seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 100; ++round) {
    const FlatLayout layout = random_layout(random);
    std::set<std::pair<ParameterId, std::size_t>> seen;
    for (GroupId group = 0; group < layout.groups().size(); ++group)
      for (int shard = 0; shard < layout.shards(); ++shard)
        for (const Piece& piece : layout.pieces(group, shard))
          for (std::size_t i = 0; i < piece.count; ++i) {
            const Place place = layout.place_of(piece.parameter, piece.begin + i);
            ASSERT_EQ(place.group, group) << "seed " << seed;
            ASSERT_EQ(place.shard, shard) << "seed " << seed;
            ASSERT_EQ(place.offset_in_shard, piece.offset + i) << "seed " << seed;
            ASSERT_LT(place.offset, layout.elements(group)) << "seed " << seed;
            ASSERT_TRUE(seen.emplace(piece.parameter, piece.begin + i).second) << "seed " << seed;
          }
    ASSERT_EQ(seen.size(), layout.table().elements()) << "seed " << seed;
  }
}

TEST(FlatLayout, WastesLessThanALineAShardAndGroup) {
  const std::uint64_t seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 100; ++round) {
    const FlatLayout layout = random_layout(random);
    const auto shards = static_cast<std::size_t>(layout.shards());
    ASSERT_LT(layout.padding(), layout.groups().size() * shards * (kAlignment + 1))
        << "seed " << seed;
    for (GroupId group = 0; group < layout.groups().size(); ++group)
      ASSERT_EQ(layout.shard_elements(group) % kAlignment, 0U);
  }
}

}  // namespace
}  // namespace tutti::training
