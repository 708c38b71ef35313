// The two levels of a layout: nodes, and rails across them.
//
// Words: a node is the ranks on one line of the layout's dimension 0. A rank's local number is its
// position on that line. There are as many rails as the largest node has ranks. Rail v passes
// through every node, at the rank with local number v. In a smaller node it passes at v modulo the
// node's size. So every node is on every rail, and a rank of a small node may be on several rails.
#pragma once

#include <cstdint>
#include <vector>

#include "src/ir/request.hpp"

namespace tutti::algorithms {

class Nodes {
 public:
  /// `layout` must be checked and not empty.
  explicit Nodes(const ir::Layout& layout);

  [[nodiscard]] Rank count() const { return static_cast<Rank>(ranks_.size()); }
  [[nodiscard]] Rank rails() const { return rails_; }
  [[nodiscard]] Rank size(Rank node) const { return static_cast<Rank>(ranks(node).size()); }
  [[nodiscard]] Rank smallest() const;
  /// The ranks of a node, ordered by local number.
  [[nodiscard]] const std::vector<Rank>& ranks(Rank node) const {
    return ranks_[static_cast<std::size_t>(node)];
  }
  /// The local number of the rank at which `rail` passes through `node`.
  [[nodiscard]] Rank local(Rank node, Rank rail) const { return rail % size(node); }
  [[nodiscard]] Rank at(Rank node, Rank rail) const {
    return ranks(node)[static_cast<std::size_t>(local(node, rail))];
  }
  /// Whether `node` has a rank with local number `rail`. Each rank is on exactly one such rail.
  [[nodiscard]] bool has(Rank node, Rank rail) const { return rail < size(node); }
  /// How many nodes before `node` have a rank with this local number.
  [[nodiscard]] Rank ends_before(Rank node, Rank rail) const {
    return before_[static_cast<std::size_t>(rail)][static_cast<std::size_t>(node)];
  }
  /// The rails that pass through `node` at this local number.
  [[nodiscard]] std::vector<Rank> rails_at(Rank node, Rank local) const;
  /// The rank of every node on `rail`.
  [[nodiscard]] std::vector<Rank> along(Rank rail) const;
  [[nodiscard]] Rank node_of(Rank rank) const { return node_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Rank local_of(Rank rank) const { return local_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<std::vector<Rank>> ranks_;
  std::vector<Rank> node_, local_;
  std::vector<std::vector<Rank>> before_;  // by rail and node
  Rank rails_ = 0;
};

/// Whether near and far differ: several nodes, at least one with several ranks.
bool has_two_levels(const ir::Request& request);

}  // namespace tutti::algorithms
