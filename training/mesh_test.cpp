#include "training/mesh.hpp"

#include <gmock/gmock.h>

namespace tutti::training {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Mesh, MakesNeighboursShardsOfOneReplica) {
  const auto mesh = *Mesh::create(6, 3);
  EXPECT_EQ(mesh.replicas(), 2);
  EXPECT_THAT(mesh.shard_group(4), ElementsAre(3, 4, 5));
  EXPECT_THAT(mesh.replica_group(4), ElementsAre(1, 4));
  EXPECT_EQ(mesh.shard_of(4), 1);
  EXPECT_EQ(mesh.replica_of(4), 1);
}

TEST(Mesh, IsReplicasAloneOrShardsAlone) {
  EXPECT_THAT(Mesh::create(3, 1)->shard_group(2), ElementsAre(2));
  EXPECT_THAT(Mesh::create(3, 1)->replica_group(2), ElementsAre(0, 1, 2));
  EXPECT_THAT(Mesh::create(3, 3)->replica_group(2), ElementsAre(2));
}

TEST(Mesh, SaysWhichShardsFit) {
  EXPECT_THAT(Mesh::create(8, 3).error().what, HasSubstr("take 2 or 4 shards"));
  EXPECT_THAT(Mesh::create(7, 3).error().what, HasSubstr("take 1 or 7 shards"));
  EXPECT_THAT(Mesh::create(4, 0).error().what, HasSubstr("0 shards"));
  EXPECT_THAT(Mesh::create(4, 8).error().what, HasSubstr("take 4 shards"));
  EXPECT_THAT(Mesh::create(0, 1).error().what, HasSubstr("a world of 0 ranks"));
}

}  // namespace
}  // namespace tutti::training
