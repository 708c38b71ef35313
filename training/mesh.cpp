#include "training/mesh.hpp"

#include "training/outcome.hpp"

namespace tutti::training {
namespace {

/// The divisors of `world` on both sides of `shards`.
std::string nearest_divisors(int world, int shards) {
  int below = 1, above = world;
  for (int d = 1; d <= world; ++d) {
    if (world % d != 0) continue;
    if (d < shards) below = d;
    if (d > shards && d < above) above = d;
  }
  return below == above ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

}  // namespace

Result<Mesh> Mesh::create(int world, int shards) {
  if (world < 1) return failure(Code::kInvalidArgument, "a world of {} ranks has none", world);
  if (shards < 1 || shards > world || world % shards != 0)
    return failure(Code::kInvalidArgument,
                   "{} ranks cannot be grouped in {} shards: take {} shards", world, shards,
                   nearest_divisors(world, shards));
  return Mesh(world, shards);
}

std::vector<Rank> Mesh::shard_group(Rank rank) const {
  std::vector<Rank> group;
  for (int shard = 0; shard < shards_; ++shard) group.push_back(replica_of(rank) * shards_ + shard);
  return group;
}

std::vector<Rank> Mesh::replica_group(Rank rank) const {
  std::vector<Rank> group;
  for (int replica = 0; replica < replicas(); ++replica)
    group.push_back(replica * shards_ + shard_of(rank));
  return group;
}

}  // namespace tutti::training
