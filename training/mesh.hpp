// Which ranks hold shards of the same parameters, and which hold replicas of the same shard.
//
// world = replicas x shards. Rank r is shard r mod shards of replica r / shards. So the shards of a
// replica are neighbours: if they fit on one host, they share it (hybrid sharding, FSDP, Zhao et
// al., VLDB 2023, section 3.2.2; MiCS, Zhang et al., VLDB 2022).
#pragma once

#include <vector>

#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::training {

/// Value. One shard: every rank has all parameters (DDP). As many shards as ranks: full sharding.
class Mesh {
 public:
  /// kInvalidArgument: `shards` does not divide `world`; the error names near divisors.
  static Result<Mesh> create(int world, int shards);

  [[nodiscard]] int world() const { return world_; }
  [[nodiscard]] int shards() const { return shards_; }
  [[nodiscard]] int replicas() const { return world_ / shards_; }
  [[nodiscard]] int shard_of(Rank rank) const { return rank % shards_; }
  [[nodiscard]] int replica_of(Rank rank) const { return rank / shards_; }
  /// The ranks that share parameters with `rank`, ordered by shard.
  [[nodiscard]] std::vector<Rank> shard_group(Rank rank) const;
  /// The ranks that hold the same shard as `rank`, ordered by replica.
  [[nodiscard]] std::vector<Rank> replica_group(Rank rank) const;

  friend bool operator==(const Mesh&, const Mesh&) = default;

 private:
  Mesh(int world, int shards) : world_(world), shards_(shards) {}
  int world_, shards_;
};

}  // namespace tutti::training
