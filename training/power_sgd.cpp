#include "training/power_sgd.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "training/hash.hpp"

namespace tutti::training {
namespace {

/// In lanes, whose order is fixed: vectors compute the same.
float dot(const float* a, const float* b, std::size_t count) {
  constexpr std::size_t kLanes = 16;
  std::array<float, kLanes> sums = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  float sum = 0;
  for (const float lane : sums) sum += lane;
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

void add_multiple(float factor, const float* of, float* into, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) into[i] += factor * of[i];
}

/// Gram-Schmidt, one column after the other. A column that depends on those before it becomes 0.
void make_orthonormal(float* columns, std::size_t length, int count) {
  constexpr float kDependent = 1e-5F;
  for (int k = 0; k < count; ++k) {
    float* const column = columns + static_cast<std::size_t>(k) * length;
    const float before = std::sqrt(dot(column, column, length));
    for (int other = 0; other < k; ++other) {
      const float* const done = columns + static_cast<std::size_t>(other) * length;
      add_multiple(-dot(done, column, length), done, column, length);
    }
    const float norm = std::sqrt(dot(column, column, length));
    // What is no number, or too large, becomes no number, so that everyone sees it.
    const bool is_dependent = norm <= kDependent * before;
    const float factor = !std::isfinite(before) ? std::numeric_limits<float>::quiet_NaN()
                         : is_dependent         ? 0
                                                : 1 / norm;
    for (std::size_t i = 0; i < length; ++i) column[i] *= factor;
  }
}

/// Of a counter, with a mean of 0: SplitMix64 (Steele et al., OOPSLA 2014).
float random_number(std::uint64_t counter) {
  std::uint64_t bits = counter * 0x9e3779b97f4a7c15U;
  bits = (bits ^ bits >> 30U) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ bits >> 27U) * 0x94d049bb133111ebU;
  bits ^= bits >> 31U;
  return static_cast<float>(bits >> 40U) * 0x1p-23F - 1;
}

}  // namespace

PowerSgdShape power_sgd_shape(const FlatLayout& layout, GroupId group, int rank) {
  PowerSgdShape shape{.rank = rank, .elements = layout.elements(group)};
  const auto columns_kept = static_cast<std::size_t>(rank);
  for (const ParameterId id : layout.groups()[group].parameters) {
    const Parameter& parameter = layout.table()[id];
    const std::size_t elements = layout.table().elements(id), offset = layout.offset_of(id);
    const auto rows =
        parameter.shape.empty() ? std::size_t{1} : static_cast<std::size_t>(parameter.shape[0]);
    const std::size_t columns = elements / rows;
    if (parameter.shape.size() < 2 || columns_kept * (rows + columns) >= elements) {
      shape.whole.push_back({offset, elements, shape.first});
      shape.first += elements;
      continue;
    }
    shape.matrices.push_back({id, offset, rows, columns, shape.first, shape.next});
    shape.first += rows * columns_kept;
    shape.next += columns * columns_kept;
  }
  return shape;
}

PowerSgd::PowerSgd(PowerSgdShape shape, const FlatLayout& layout, int ranks)
    : shape_(std::move(shape)),
      ranks_(ranks),
      owed_(shape_.elements),
      p_(shape_.first),
      q_(shape_.next) {
  for (const PowerSgdShape::Matrix& matrix : shape_.matrices) {
    const std::uint64_t seed = Hash().add(layout.table()[matrix.parameter].name).value();
    const std::span<float> numbers = q(matrix);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = random_number(seed + i);
  }
}

std::size_t PowerSgd::bytes() const {
  return (owed_.size() + p_.size() + q_.size() + old_owed_.size() + old_q_.size()) * sizeof(float);
}

void PowerSgd::factor(std::span<const float> gradients, std::span<float> first) {
  old_owed_ = owed_;
  old_q_ = q_;
  for (std::size_t i = 0; i < owed_.size(); ++i) owed_[i] += gradients[i];
  for (const PowerSgdShape::Whole& whole : shape_.whole)
    std::ranges::copy(std::span(owed_).subspan(whole.offset, whole.count),
                      first.begin() + static_cast<std::ptrdiff_t>(whole.begin));
  for (const PowerSgdShape::Matrix& m : shape_.matrices)
    for (std::size_t k = 0; k < static_cast<std::size_t>(shape_.rank); ++k)
      for (std::size_t row = 0; row < m.rows; ++row)
        first[m.p + k * m.rows + row] = dot(owed_.data() + m.offset + row * m.columns,
                                            q_.data() + m.q + k * m.columns, m.columns);
}

void PowerSgd::turn(std::span<const float> first, std::span<float> next) {
  std::ranges::copy(first.first(p_.size()), p_.begin());
  std::ranges::fill(next, 0.0F);
  for (const PowerSgdShape::Matrix& m : shape_.matrices) {
    float* const p = p_.data() + m.p;
    make_orthonormal(p, m.rows, shape_.rank);
    for (std::size_t k = 0; k < static_cast<std::size_t>(shape_.rank); ++k)
      for (std::size_t row = 0; row < m.rows; ++row)
        add_multiple(p[k * m.rows + row], owed_.data() + m.offset + row * m.columns,
                     next.data() + m.q + k * m.columns, m.columns);
  }
}

void PowerSgd::rebuild(std::span<const float> next, std::span<float> gradients) {
  for (const PowerSgdShape::Whole& whole : shape_.whole) {
    std::ranges::copy(std::span(p_).subspan(whole.begin, whole.count),
                      gradients.begin() + static_cast<std::ptrdiff_t>(whole.offset));
    std::ranges::fill(std::span(owed_).subspan(whole.offset, whole.count), 0.0F);
  }
  const float part = 1 / static_cast<float>(ranks_);
  for (const PowerSgdShape::Matrix& m : shape_.matrices) {
    for (std::size_t row = 0; row < m.rows; ++row) {
      float* const into = gradients.data() + m.offset + row * m.columns;
      std::fill_n(into, m.columns, 0.0F);
      for (std::size_t k = 0; k < static_cast<std::size_t>(shape_.rank); ++k)
        add_multiple(p_[m.p + k * m.rows + row], next.data() + m.q + k * m.columns, into,
                     m.columns);
      add_multiple(-part, into, owed_.data() + m.offset + row * m.columns, m.columns);
    }
    for (std::size_t k = 0; k < static_cast<std::size_t>(shape_.rank); ++k) {
      const auto column = next.subspan(m.q + k * m.columns, m.columns);
      // One of zeros would stay so for ever.
      if (std::ranges::all_of(column, [](float value) { return value == 0; })) continue;
      std::ranges::copy(column, q_.begin() + static_cast<std::ptrdiff_t>(m.q + k * m.columns));
    }
  }
}

void PowerSgd::undo() {
  if (old_owed_.empty()) return;
  owed_ = old_owed_;
  q_ = old_q_;
}

}  // namespace tutti::training
