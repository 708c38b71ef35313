// The two levels of a layout: nodes, and rails across them.
//
// Words: a node is the ranks on one line of the layout's dimension 0; the local number of a rank is
// its position there. There are as many rails as the largest node has ranks. Rail v passes through
// every node, at its rank of local number v; where a node is smaller, at v modulo its size, so
// that nothing is left out and a rank of a small node may stand on several rails.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "src/ir/algorithm.hpp"
#include "src/ir/builder.hpp"
#include "src/ir/embed.hpp"
#include "src/ir/request.hpp"

namespace tutti::algorithms {

class Nodes {
 public:
  /// `layout` is checked, and not empty.
  explicit Nodes(const ir::Layout& layout);

  [[nodiscard]] Rank count() const { return static_cast<Rank>(ranks_.size()); }
  [[nodiscard]] Rank rails() const { return rails_; }
  [[nodiscard]] Rank size(Rank node) const { return static_cast<Rank>(ranks(node).size()); }
  [[nodiscard]] Rank smallest() const;
  /// The ranks of a node, in the order of their local numbers.
  [[nodiscard]] const std::vector<Rank>& ranks(Rank node) const {
    return ranks_[static_cast<std::size_t>(node)];
  }
  /// The local number at which `rail` passes through `node`.
  [[nodiscard]] Rank local(Rank node, Rank rail) const { return rail % size(node); }
  [[nodiscard]] Rank at(Rank node, Rank rail) const {
    return ranks(node)[static_cast<std::size_t>(local(node, rail))];
  }
  /// Whether the rank of that local number is there: each rank is on just one such rail.
  [[nodiscard]] bool has(Rank node, Rank rail) const { return rail < size(node); }
  /// Of the nodes before `node`, how many have the rank of that local number.
  [[nodiscard]] Rank ends_before(Rank node, Rank rail) const {
    return before_[static_cast<std::size_t>(rail)][static_cast<std::size_t>(node)];
  }
  /// The rails that pass through `node` at that local number.
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

/// Appends the schedule of `leaf` for `request` as a part of `whole`. Its blocks must be one chunk
/// each, as part.input and part.output take them for.
Status embed_leaf(const ir::Algorithm& leaf, const ir::Request& request, const ir::Part& part,
                  ir::Builder& whole);

/// There is a difference between near and far: several nodes, one of several ranks.
bool has_two_levels(const ir::Request& request);

}  // namespace tutti::algorithms
