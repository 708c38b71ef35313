#include "training/pass_sums.hpp"

#include <bit>
#include <random>
#include <vector>

#include <gmock/gmock.h>

#include "training/test_model.hpp"

namespace tutti::training {
namespace {

/// The sum of leaves [begin, end) along the tree, by its definition.
float along_tree(const std::vector<float>& leaves, unsigned begin, unsigned end) {
  if (end - begin == 1) return leaves[begin];
  const unsigned left = std::bit_floor(end - begin - 1);
  return along_tree(leaves, begin, begin + left) + along_tree(leaves, begin + left, end);
}

TEST(PassSums, AreThoseOfTheTreeForAnyNumberOfPasses) {
  const FlatLayout layout = *FlatLayout::create(model(), {{"a", {0, 1}}, {"b", {2}}}, 1);
  run_ranks(1, [&](Comm& comm) {
    std::minstd_rand random(7);
    for (unsigned passes = 1; passes <= 20; ++passes) {
      auto sums = PassSums::create(layout, std::bit_width(passes), true, comm);
      ASSERT_TRUE(sums);
      std::vector<float> leaves(passes);
      for (unsigned pass = 0; pass < passes; ++pass) {
        leaves[pass] = static_cast<float>(random()) * 1e-3F;
        for (const GroupId group : {1U, 0U}) {
          const std::vector<float> came(layout.padded(group),
                                        leaves[pass] * static_cast<float>(1 + group));
          sums->add(group, static_cast<int>(pass), DataType::kFloat32,
                    std::as_bytes(std::span(came)));
        }
      }
      sums->close(static_cast<int>(passes));
      const float expected = along_tree(leaves, 0, passes);
      for (const float sum : sums->total(0)) ASSERT_EQ(sum, expected) << passes;
      for (const float sum : sums->total(1)) ASSERT_EQ(sum, 2 * expected) << passes;
    }
  });
}

TEST(PassSums, AddOneAfterTheOtherWithoutATree) {
  const FlatLayout layout = *FlatLayout::create(model(), {{"all", {0, 1, 2}}}, 1);
  run_ranks(1, [&](Comm& comm) {
    auto sums = PassSums::create(layout, 1, false, comm);
    ASSERT_TRUE(sums);
    float expected = -0.0F;  // the first is taken as it is, its sign included
    for (int pass = 0; pass < 5; ++pass) {
      const std::vector<float> came(layout.padded(0),
                                    pass == 0 ? -0.0F : 0.1F * static_cast<float>(pass));
      expected += came[0];
      sums->add(0, pass, DataType::kFloat32, std::as_bytes(std::span(came)));
      ASSERT_EQ(std::bit_cast<std::uint32_t>(sums->total(0)[3]),
                std::bit_cast<std::uint32_t>(expected));
    }
  });
}

}  // namespace
}  // namespace tutti::training
