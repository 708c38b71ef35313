// Adds up the results of a step's backward passes in float32, one after the other or along a tree.
//
// The tree is a binary tree over leaves 0, 1, 2 ... Every subtree has a power of two of leaves, as
// far as there are enough: ((0 + 1) + (2 + 3)) + 4. It is stored like a binary counter, with one
// partial sum per bit of the number of leaves. If each leaf is itself such a tree over 2^k ranks,
// the whole is the tree over all of them. So any power of two of ranks gives the same bits.
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

/// For one rank's shards of all groups. Resource, movable.
class PassSums {
 public:
  PassSums() = default;
  /// `levels`: 1 to add one after the other; else the number of bits of the number of passes.
  /// `comm`: the communicator that will use the sums.
  static Result<PassSums> create(const FlatLayout& layout, int levels, bool is_tree,
                                 const Comm& comm);

  /// Adds the result of pass number `pass` for a group, with elements of `type`. Once per group and
  /// pass; passes in order from 0.
  void add(GroupId group, int pass, DataType type, std::span<const std::byte> came);
  /// All `passes` passes of a step were added; there was at least one.
  void close(int passes);
  /// The sum of a group, after close(). If passes are added one after the other, also after each
  /// pass.
  [[nodiscard]] std::span<float> total(GroupId group) const { return level(group, top_); }

  [[nodiscard]] std::size_t bytes() const { return memory_.data().size(); }

 private:
  [[nodiscard]] std::span<float> level(GroupId group, int number) const;

  Slab memory_;  ///< all levels, each with all groups
  std::vector<std::size_t> begins_, counts_;
  std::size_t elements_ = 0;  ///< of one level
  bool is_tree_ = false;
  int top_ = 0;  ///< the level that holds the totals
};

}  // namespace tutti::training
