// From a member's part in an operation of a tree to the collectives of a switch's worker.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "src/switch/operation.hpp"
#include "src/transport/aggregation.hpp"

namespace tutti::in_network {

/// Operations that do a part, one after the other, and the memory that they need. All members come
/// to the same operations. Resource: its operations point into it and into the caller's memory.
///
/// A switch's operations have blocks of one size in one piece. What lies in several pieces is
/// copied. Parts of several sizes are cut out of a sum that all get, and sent one after the other.
class TreeOperations {
 public:
  /// `place` of `members` is this member's.
  TreeOperations(const TreePart& part, std::size_t place, std::size_t members);
  TreeOperations(const TreeOperations&) = delete;
  TreeOperations& operator=(const TreeOperations&) = delete;

  /// The next one; null at the end.
  [[nodiscard]] const Operation* next() const {
    return operations_.empty() ? nullptr : &operations_.front();
  }
  void pop() { operations_.pop_front(); }
  /// After the last one: puts the results where they are wanted.
  void deliver();

 private:
  struct CopyOut {
    std::span<std::byte> to;
    std::size_t from = 0;  ///< in results_
  };

  void plan(const TreePart& part);
  void sum(const TreePart& part, Collective collective);
  void sum_in_parts(const TreePart& part);
  void from_one(const TreePart& part);
  void from_all(const TreePart& part);
  const std::byte* input_of(const TreePart& part);
  std::byte* output_of(const TreePart& part, bool may_replace_input);
  void copy_out(const TreePart& part, std::size_t first);
  [[nodiscard]] std::vector<std::size_t> block_sizes(const std::vector<std::size_t>& pieces) const;

  const std::size_t place_, members_;
  std::deque<Operation> operations_;
  std::vector<std::byte> gathered_, results_;
  std::vector<CopyOut> copies_;
};

}  // namespace tutti::in_network
