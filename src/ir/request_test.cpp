#include "src/ir/request.hpp"

#include <gtest/gtest.h>

namespace tutti::ir {
namespace {

struct Shape {
  Collective collective;
  BlockCounts at_root;
  BlockCounts elsewhere;
};

constexpr Rank kRoot = 2;
constexpr Shape kShapes[] = {
    {Collective::kAllReduce, {1, 1}, {1, 1}},     {Collective::kAllGather, {1, 5}, {1, 5}},
    {Collective::kReduceScatter, {5, 1}, {5, 1}}, {Collective::kBroadcast, {1, 1}, {0, 1}},
    {Collective::kReduce, {1, 1}, {1, 0}},        {Collective::kAllToAll, {5, 5}, {5, 5}},
    {Collective::kGather, {1, 5}, {1, 0}},        {Collective::kScatter, {5, 1}, {0, 1}},
    {Collective::kSend, {0, 0}, {0, 0}},          {Collective::kRecv, {0, 0}, {0, 0}},
};

TEST(Request, BlockCountsFollowTheCollective) {
  for (const Shape& shape : kShapes) {
    const Request request{shape.collective, 5, kRoot, false};
    const BlockCounts root = block_counts(request, kRoot);
    EXPECT_EQ(root.input, shape.at_root.input) << name_of(shape.collective);
    EXPECT_EQ(root.output, shape.at_root.output) << name_of(shape.collective);
    const BlockCounts other = block_counts(request, 4);
    EXPECT_EQ(other.input, shape.elsewhere.input) << name_of(shape.collective);
    EXPECT_EQ(other.output, shape.elsewhere.output) << name_of(shape.collective);
  }
}

TEST(Request, NothingIsAliasedOutOfPlace) {
  for (const Shape& shape : kShapes)
    for (Rank rank = 0; rank < 5; ++rank)
      EXPECT_FALSE(aliasing({shape.collective, 5, kRoot, false}, rank).exists);
}

TEST(Request, InPlaceAliasesOneBlockByNcclsRules) {
  const auto expect = [](Collective collective, Rank rank, bool exists, int input, int output) {
    const Aliasing alias = aliasing({collective, 5, kRoot, true}, rank);
    SCOPED_TRACE(testing::Message() << name_of(collective) << " rank " << rank);
    EXPECT_EQ(alias.exists, exists);
    EXPECT_EQ(alias.input_block, input);
    EXPECT_EQ(alias.output_block, output);
    EXPECT_EQ(alias.blocks, exists ? 1 : 0);
  };
  for (Rank rank = 0; rank < 5; ++rank) {
    const bool root = rank == kRoot;
    expect(Collective::kAllReduce, rank, true, 0, 0);
    expect(Collective::kAllGather, rank, true, 0, rank);
    expect(Collective::kReduceScatter, rank, true, rank, 0);
    expect(Collective::kBroadcast, rank, root, 0, 0);
    expect(Collective::kReduce, rank, root, 0, 0);
    expect(Collective::kGather, rank, root, 0, root ? kRoot : 0);
    expect(Collective::kScatter, rank, root, root ? kRoot : 0, 0);
    expect(Collective::kAllToAll, rank, false, 0, 0);
  }
}

}  // namespace
}  // namespace tutti::ir
