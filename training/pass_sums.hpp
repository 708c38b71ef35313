// Adds up what the backward passes of a step give, in float32: one after the other, or along a
// tree.
//
// The tree is the binary one over leaves 0, 1, 2 ..., each subtree of which has a power of two of
// leaves as far as there are any: ((0 + 1) + (2 + 3)) + 4. It is kept as a binary counter is, with
// one partial sum for each bit of the number of leaves. Where each leaf is itself such a tree over
// 2^k ranks, the whole is the tree over all of them: the same bits for any power of two of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "training/flat_layout.hpp"
#include "training/numbers.hpp"
#include "training/slab.hpp"
#include "tutti/communicator.hpp"
#include "tutti/error.hpp"

namespace tutti::training {

/// Of one rank's shards of all groups. Resource, movable.
class PassSums {
 public:
  PassSums() = default;
  /// `levels`: 1 adds one after the other; else the bits of the number of passes. `comm`: which is
  /// to reach them.
  static Result<PassSums> create(const FlatLayout& layout, int levels, bool is_tree,
                                 const Comm& comm);

  /// What pass number `pass` gave for a group, of elements of `type`. Each group once a pass,
  /// passes in order from 0.
  void add(GroupId group, int pass, DataType type, std::span<const std::byte> came);
  /// All `passes` passes of a step were added, at least one.
  void close(int passes);
  /// After close(), or after each pass where they are added one after the other: the sum of a
  /// group.
  [[nodiscard]] std::span<float> total(GroupId group) const { return level(group, top_); }

  [[nodiscard]] std::size_t bytes() const { return memory_.data().size(); }

 private:
  [[nodiscard]] std::span<float> level(GroupId group, int number) const;

  Slab memory_;  ///< level after level, each with all groups
  std::vector<std::size_t> begins_, counts_;
  std::size_t elements_ = 0;  ///< of a level
  bool is_tree_ = false;
  int top_ = 0;  ///< the level that has the totals
};

}  // namespace tutti::training
