#include "training/gradient_reducer.hpp"

#include <algorithm>
#include <random>

#include <gmock/gmock.h>

#include "training/buckets.hpp"
#include "training/test_model.hpp"

namespace tutti::training {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const FlatLayout> layout_of(int shards, std::size_t bucket = 100) {
  const auto table =
      *ParameterTable::create({{"a", {40}}, {"b", {3, 7}}, {"c", {100}}, {"d", {1}}, {"e", {64}}});
  auto groups = *cut_buckets(table, reverse_order(table), {50, bucket});
  return std::make_shared<const FlatLayout>(*FlatLayout::create(table, std::move(groups), shards));
}

/// Whole numbers, whose sums are exact.
float gradient(Rank rank, ParameterId parameter, std::size_t element) {
  return static_cast<float>(1000 * (rank + 1) + 100 * parameter + element % 97);
}
float sum(int ranks, ParameterId parameter, std::size_t element) {
  float total = 0;
  for (Rank rank = 0; rank < ranks; ++rank) total += gradient(rank, parameter, element);
  return total;
}

/// One backward pass, whose gradients get ready in any order.
void run_backward(GradientReducer& reducer, Rank rank, std::mt19937_64& random) {
  std::vector<ParameterId> order = reverse_order(reducer.layout().table());
  std::ranges::shuffle(order, random);
  reducer.clear();
  ASSERT_TRUE(reducer.begin());
  for (const ParameterId parameter : order) {
    const std::span<float> place = reducer.gradient(parameter);
    for (std::size_t i = 0; i < place.size(); ++i) place[i] = gradient(rank, parameter, i);
    const Status ready = reducer.ready(parameter);
    ASSERT_TRUE(ready) << ready.error().what;
  }
  const Status finished = reducer.finish();
  ASSERT_TRUE(finished) << finished.error().what;
}

TEST(GradientReducer, AddsUpAllGradientsOnEveryRank) {
  for (const int ranks : {1, 2, 3, 4})
    run_ranks(ranks, [&](Comm& comm) {
      std::mt19937_64 random(comm.rank());
      auto reducer = GradientReducer::create(layout_of(1), comm);
      ASSERT_TRUE(reducer) << reducer.error().what;
      for (int pass = 0; pass < 3; ++pass) {
        run_backward(*reducer, comm.rank(), random);
        for (ParameterId parameter = 0; parameter < 5; ++parameter)
          for (std::size_t i = 0; i < reducer->gradient(parameter).size(); ++i)
            ASSERT_EQ(reducer->gradient(parameter)[i], sum(ranks, parameter, i));
      }
    });
}

TEST(GradientReducer, GivesEveryRankTheSumsOfItsShards) {
  for (const int ranks : {2, 3, 4})
    run_ranks(ranks, [&](Comm& comm) {
      std::mt19937_64 random(comm.rank());
      const auto layout = layout_of(ranks);
      auto reducer = GradientReducer::create(layout, comm);
      ASSERT_TRUE(reducer) << reducer.error().what;
      run_backward(*reducer, comm.rank(), random);
      for (GroupId group = 0; group < layout->groups().size(); ++group)
        for (const Piece& piece : layout->pieces(group, comm.rank()))
          for (std::size_t i = 0; i < piece.count; ++i)
            ASSERT_EQ(reducer->reduced(group)[piece.offset + i],
                      sum(ranks, piece.parameter, piece.begin + i));
    });
}

TEST(GradientReducer, NamesParametersWithoutGradientsAndGoesOnOnceTheyAreReady) {
  run_ranks(2, [](Comm& comm) {
    auto reducer = *GradientReducer::create(layout_of(1), comm);
    ASSERT_TRUE(reducer.begin());
    for (const ParameterId parameter : {4U, 3U, 2U}) ASSERT_TRUE(reducer.ready(parameter));
    const Status unfinished = reducer.finish();
    ASSERT_FALSE(unfinished);
    EXPECT_EQ(unfinished.error().code, Code::kInvalidUsage);
    EXPECT_THAT(unfinished.error().what, HasSubstr("2 parameters of 5 got no gradient in this "
                                                   "backward pass: a, b."));
    ASSERT_TRUE(reducer.ready(1));
    ASSERT_TRUE(reducer.ready(0));
    EXPECT_TRUE(reducer.finish());
  });
}

TEST(GradientReducer, RefusesWhatIsOutOfTurn) {
  run_ranks(1, [](Comm& comm) {
    auto reducer = *GradientReducer::create(layout_of(1), comm);
    EXPECT_THAT(reducer.ready(0).error().what, HasSubstr("'a' is ready outside"));
    EXPECT_THAT(reducer.finish().error().what, HasSubstr("without begin()"));
    ASSERT_TRUE(reducer.begin());
    EXPECT_THAT(reducer.begin().error().what, HasSubstr("before finish()"));
    ASSERT_TRUE(reducer.ready(4));
    EXPECT_THAT(reducer.ready(4).error().what, HasSubstr("'e' is ready for the second time"));
    EXPECT_THAT(GradientReducer::create(layout_of(2), comm).error().what,
                HasSubstr("2 shards over 1 ranks"));
  });
}

}  // namespace
}  // namespace tutti::training
