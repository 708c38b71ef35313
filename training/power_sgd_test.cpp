#include "training/power_sgd.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace tutti::training {
namespace {

FlatLayout layout_of_matrices() {
  const auto table = *ParameterTable::create(
      {{"bias", {48}, false}, {"matrix", {40, 48}}, {"cube", {30, 4, 10}}, {"thin", {2, 9}}});
  return *FlatLayout::create(table, {{"all", {0, 1, 2, 3}}}, 1);
}

std::vector<float> sum_of(const std::vector<std::vector<float>>& of) {
  std::vector<float> sums(of[0].size());
  for (const auto& values : of)
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
  return sums;
}

/// What ranks do in a step; returns the gradients, equal on all.
std::vector<float> thin_step(std::vector<PowerSgd>& ranks,
                             std::vector<std::vector<float>> gradients) {
  std::vector<std::vector<float>> first, next;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    first.emplace_back(ranks[rank].shape().first);
    ranks[rank].factor(gradients[rank], first.back());
  }
  const std::vector<float> firsts = sum_of(first);
  for (PowerSgd& rank : ranks) {
    next.emplace_back(rank.shape().next);
    rank.turn(firsts, next.back());
  }
  const std::vector<float> nexts = sum_of(next);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].rebuild(nexts, gradients[rank]);
    EXPECT_TRUE(std::ranges::equal(
        gradients[rank], gradients[0],
        [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }))
        << "rank " << rank;
  }
  return gradients[0];
}

std::vector<PowerSgd> make_ranks(int ranks, int rank) {
  const FlatLayout flat = layout_of_matrices();
  return std::vector<PowerSgd>(static_cast<std::size_t>(ranks),
                               PowerSgd(power_sgd_shape(flat, 0, rank), flat, ranks));
}

std::vector<float> random_numbers(unsigned seed, std::size_t count) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

TEST(PowerSgd, SendsMatricesThatBecomeSmallerAsThinOnes) {
  const PowerSgdShape shape = power_sgd_shape(layout_of_matrices(), 0, 2);
  ASSERT_EQ(shape.matrices.size(), 2U);
  EXPECT_EQ(shape.matrices[0].rows, 40U);
  EXPECT_EQ(shape.matrices[1].rows, 30U);
  EXPECT_EQ(shape.matrices[1].columns, 40U) << "rows are the first dimension";
  EXPECT_EQ(shape.first, 48U + 18 + 2 * (40 + 30));
  EXPECT_EQ(shape.next, 2U * (48 + 40));
}

TEST(PowerSgd, OfThinMatricesIsExactAndOwesNothing) {
  auto ranks = make_ranks(3, 2);
  const std::size_t elements = ranks[0].shape().elements;
  std::vector<std::vector<float>> gradients;
  const auto left = random_numbers(1, 70), right = random_numbers(2, 88);
  for (unsigned rank = 0; rank < 3; ++rank) {
    std::vector<float> values = random_numbers(10 + rank, elements);
    for (const auto& m : ranks[0].shape().matrices)
      for (std::size_t i = 0; i < m.rows * m.columns; ++i)
        values[m.offset + i] =
            static_cast<float>(rank + 1) * left[i / m.columns] * right[i % m.columns];
    gradients.push_back(values);
  }
  const std::vector<float> expected = sum_of(gradients), found = thin_step(ranks, gradients);
  for (std::size_t i = 0; i < elements; ++i) EXPECT_NEAR(found[i], expected[i], 1e-4) << i;
  for (const float owed : sum_of({{ranks[0].owed().begin(), ranks[0].owed().end()},
                                  {ranks[1].owed().begin(), ranks[1].owed().end()},
                                  {ranks[2].owed().begin(), ranks[2].owed().end()}}))
    EXPECT_NEAR(owed, 0, 1e-4);
}

// What was sent and what is owed are what came, over any number of steps.
TEST(PowerSgd, LosesNothing) {
  auto ranks = make_ranks(2, 1);
  const std::size_t elements = ranks[0].shape().elements;
  std::vector<double> came(elements), sent(elements);
  double sent_energy = 0;
  for (unsigned number = 0; number < 30; ++number) {
    const std::vector<std::vector<float>> gradients = {random_numbers(3, elements),
                                                       random_numbers(100 + number, elements)};
    const auto found = thin_step(ranks, gradients);
    for (std::size_t i = 0; i < elements; ++i) {
      came[i] += static_cast<double>(gradients[0][i]) + gradients[1][i];
      sent[i] += found[i];
      sent_energy += std::fabs(found[i]);
    }
  }
  for (std::size_t i = 0; i < elements; ++i)
    EXPECT_NEAR(came[i], sent[i] + ranks[0].owed()[i] + ranks[1].owed()[i], 1e-3);
  EXPECT_GT(sent_energy, 0);
}

TEST(PowerSgd, UndoesAStep) {
  auto ranks = make_ranks(2, 2);
  const std::size_t elements = ranks[0].shape().elements;
  (void)thin_step(ranks, {random_numbers(1, elements), random_numbers(2, elements)});
  auto other = ranks;
  auto bad = random_numbers(4, elements);
  bad[100] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(thin_step(ranks, {random_numbers(3, elements), bad})[100]));
  for (PowerSgd& rank : ranks) rank.undo();
  EXPECT_EQ(thin_step(ranks, {random_numbers(5, elements), random_numbers(6, elements)}),
            thin_step(other, {random_numbers(5, elements), random_numbers(6, elements)}));
}

TEST(PowerSgd, GoesOnAfterGradientsOfZero) {
  auto ranks = make_ranks(2, 2);
  const std::size_t elements = ranks[0].shape().elements;
  const std::vector<float> zeros(elements);
  for (const float value : thin_step(ranks, {zeros, zeros})) EXPECT_EQ(value, 0);
  double energy = 0;
  for (const float value : thin_step(ranks, {random_numbers(1, elements), zeros}))
    energy += std::fabs(value);
  EXPECT_GT(energy, 100);
}

}  // namespace
}  // namespace tutti::training
