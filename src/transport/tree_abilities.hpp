// What trees of the network can do, in a form that ranks tell each other: they have to agree, also
// with ranks that have no tree themselves.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "src/base/blob.hpp"
#include "src/transport/aggregation.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

inline constexpr std::size_t kTreeAbilitiesBytes = kDataTypes + 2;

/// Value. Nothing, at first.
class TreeAbilities {
 public:
  static TreeAbilities all();
  static TreeAbilities of(const AggregationTree& tree);

  [[nodiscard]] bool adds(DataType type, ReduceOp op) const {
    return (operators_[static_cast<std::size_t>(type)] >> static_cast<unsigned>(op) & 1U) != 0;
  }
  [[nodiscard]] bool does(TreeForm form) const {
    return (forms_ >> static_cast<unsigned>(form) & 1U) != 0;
  }
  /// As AggregationTree::least_bits().
  [[nodiscard]] unsigned least_bits() const { return least_bits_; }
  void least_bits(unsigned bits) { least_bits_ = static_cast<std::uint8_t>(bits); }
  void add(DataType type, ReduceOp op) {
    operators_[static_cast<std::size_t>(type)] |= bit(static_cast<unsigned>(op));
  }
  void add(TreeForm form) { forms_ |= bit(static_cast<unsigned>(form)); }
  /// What both can.
  TreeAbilities& operator&=(const TreeAbilities& other);

  friend bool operator==(const TreeAbilities&, const TreeAbilities&) = default;

 private:
  friend Blob encode(const TreeAbilities& abilities);
  friend Result<TreeAbilities> decode_tree_abilities(std::span<const std::byte> bytes);
  static constexpr std::uint8_t bit(unsigned number) {
    return static_cast<std::uint8_t>(1U << number);
  }

  std::array<std::uint8_t, kDataTypes> operators_{};  // a bit for each, of each type
  std::uint8_t forms_ = 0;
  std::uint8_t least_bits_ = 32;
};

/// kTreeAbilitiesBytes.
Blob encode(const TreeAbilities& abilities);
/// Accepts any bytes. kPeerFailed where they are no abilities.
Result<TreeAbilities> decode_tree_abilities(std::span<const std::byte> bytes);

}  // namespace tutti
