// Adds the gradients of all ranks, bucket by bucket, while earlier layers still compute theirs.
//
// The adapter writes each gradient where gradient() says, in its bucket, and says ready(). A bucket
// whose gradients are all ready is reduced beside the caller, and buckets strictly in the order of
// the layout, so that all ranks make the same calls whatever the order in which their gradients
// come. finish() waits for all. (Li et al., PyTorch Distributed, VLDB 2020, section 3.2.)
//
// With one shard every rank gets all sums; with as many as ranks each gets those of its shards, by
// reduce-scatter in place, which moves half. Sums, not means: what to divide by is up to the
// optimizer, which knows how many samples or tokens there were.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "training/flat_layout.hpp"
#include "training/slab.hpp"
#include "tutti/communicator.hpp"
#include "tutti/error.hpp"
#include "tutti/stream.hpp"

namespace tutti::training {

/// Of one rank. One thread at a time; between begin() and finish() nobody else uses `comm`.
/// Resource.
class GradientReducer {
 public:
  /// `comm` outlives it; the layout has one shard, or as many as `comm` has ranks
  /// (kInvalidArgument otherwise).
  static Result<GradientReducer> create(std::shared_ptr<const FlatLayout> layout, Comm& comm);
  GradientReducer(GradientReducer&&) = default;
  GradientReducer& operator=(GradientReducer&&) = delete;  // calls may be under way

  /// Where this rank's gradient of a parameter is added up; zero after create() and clear().
  [[nodiscard]] std::span<float> gradient(ParameterId parameter) const;
  void clear();

  /// A backward pass begins whose gradients are to be reduced. Not to be called where gradients are
  /// only accumulated.
  Status begin();
  /// Its gradient of this parameter is complete. kInvalidUsage: twice, or not after begin().
  Status ready(ParameterId parameter);
  /// Returns when all buckets are reduced. kInvalidUsage names the parameters without gradients;
  /// their buckets are not sent until they are marked ready and finish() is called again. Ranks
  /// that have gradients for all wait for this one meanwhile, until it ends or TUTTI_TIMEOUT.
  Status finish();
  /// Between begin() and finish(): buckets may be on their way.
  [[nodiscard]] bool is_open() const { return is_open_; }

  /// After finish(): the sums over all ranks of a group's buffer, or of this rank's shard of it.
  [[nodiscard]] std::span<float> reduced(GroupId group) const;
  /// This rank's shard, 0 with one shard.
  [[nodiscard]] int shard() const { return shard_; }
  [[nodiscard]] const FlatLayout& layout() const { return *layout_; }
  [[nodiscard]] const std::shared_ptr<const FlatLayout>& shared_layout() const { return layout_; }

 private:
  GradientReducer(std::shared_ptr<const FlatLayout> layout, Comm& comm, Stream stream,
                  std::vector<Slab> buckets);
  Status launch(GroupId group);
  Status launch_what_is_ready();
  [[nodiscard]] std::vector<ParameterId> missing() const;

  std::shared_ptr<const FlatLayout> layout_;
  Comm* comm_;
  int shard_ = 0;
  std::vector<Slab> buckets_;
  Stream stream_;  ///< last of what calls on it use, so that its end comes first

  bool is_open_ = false;
  std::vector<bool> is_ready_;        ///< by parameter
  std::vector<std::size_t> unready_;  ///< by group: parameters to come
  GroupId next_ = 0;                  ///< to be launched
};

}  // namespace tutti::training
