// PowerSGD: what of a group's gradients travels as products of thin matrices (Vogels et al.,
// PowerSGD, NeurIPS 2019, algorithm 1).
//
// The gradient M of a matrix, n x m, becomes P Q^T, with P n x r and Q m x r. Ranks add P = M Q,
// make its columns orthonormal, and add Q = M^T P. Q is kept: the next step begins with it. A
// parameter with more than two dimensions counts as a matrix whose rows are its first dimension.
// One whose thin matrices would be no smaller, such as a vector, travels whole beside P.
//
//   factor()   M of this rank, which owes what was left over before -> what ranks add first
//   turn()     its sums -> what ranks add next
//   rebuild()  its sums -> the gradients, equal on all ranks; what is left over is owed
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "training/flat_layout.hpp"
#include "tutti/error.hpp"

namespace tutti::training {

inline constexpr int kMostPowerSgdRank = 1024;

/// What travels of a group. Value.
struct PowerSgdShape {
  struct Matrix {
    ParameterId parameter = 0;
    std::size_t offset = 0;  ///< in the group's buffer
    std::size_t rows = 0, columns = 0;
    std::size_t p = 0, q = 0;  ///< where its thin matrices begin in what travels first, and next
  };
  /// Elements of the group's buffer that travel whole.
  struct Whole {
    std::size_t offset = 0, count = 0;
    std::size_t begin = 0;  ///< in what travels first
  };
  int rank = 1;
  std::vector<Matrix> matrices = {};
  std::vector<Whole> whole = {};
  std::size_t first = 0, next = 0;  ///< elements that travel first, and next
  std::size_t elements = 0;         ///< of the group's buffer, without padding
};
PowerSgdShape power_sgd_shape(const FlatLayout& layout, GroupId group, int rank);

/// One group's state on one rank. Value.
class PowerSgd {
 public:
  PowerSgd() = default;
  /// `ranks`: that add. Q begins with numbers that depend on names alone, the same on all ranks.
  PowerSgd(PowerSgdShape shape, const FlatLayout& layout, int ranks);

  [[nodiscard]] const PowerSgdShape& shape() const { return shape_; }
  /// `gradients`: of the group. Writes shape().first elements.
  void factor(std::span<const float> gradients, std::span<float> first);
  /// `first`: sums over ranks. Writes shape().next elements.
  void turn(std::span<const float> first, std::span<float> next);
  /// `next`: sums over ranks. Overwrites the group's gradients.
  void rebuild(std::span<const float> next, std::span<float> gradients);
  /// Instead of all that was done since the last factor(): as it was before.
  void undo();

  /// What this rank owes, by element of the group.
  [[nodiscard]] std::span<float> owed() { return owed_; }
  [[nodiscard]] std::span<const float> owed() const { return owed_; }
  /// Q of a matrix, one column after the other: the next step begins with it.
  [[nodiscard]] std::span<float> q(const PowerSgdShape::Matrix& matrix) {
    return std::span(q_).subspan(matrix.q, matrix.columns * static_cast<std::size_t>(shape_.rank));
  }
  [[nodiscard]] std::size_t bytes() const;

 private:
  PowerSgdShape shape_;
  int ranks_ = 1;
  std::vector<float> owed_;  ///< from factor() to rebuild(): with the gradients
  std::vector<float> p_, q_;
  std::vector<float> old_owed_, old_q_;  ///< of before factor()
};

}  // namespace tutti::training
