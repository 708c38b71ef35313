// The bits of sums along one tree: equal to a plain reference of the tree for every number of
// ranks, size and type, over whatever connects the ranks.
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/base/float_formats.hpp"
#include "tests/collectives/ranks.hpp"

namespace tutti {
namespace {

using testing::make_test_runtime;
using testing::make_test_runtimes;
using testing::Placement;
using testing::run_ranks;
using testing::Runtimes;

struct Float32 {
  using Bits = float;
  static constexpr DataType kType = DataType::kFloat32;
  static float value(Bits bits) { return bits; }
  static Bits rounded(float value) { return value; }
};
template <class Format, DataType kDataType>
struct Narrow {
  using Bits = typename Format::Bits;
  static constexpr DataType kType = kDataType;
  static float value(Bits bits) { return widen<Format>(bits); }
  static Bits rounded(float value) { return narrow<Format>(value); }
};
using Brain = Narrow<Bfloat16, DataType::kBfloat16>;
using Half = Narrow<Float16, DataType::kFloat16>;

template <class Element>
using Vector = std::vector<typename Element::Bits>;

/// The tree over contributions[0], contributions[1] ...: the definition, written down once more.
template <class Element>
typename Element::Bits along_tree(std::span<const typename Element::Bits> contributions) {
  if (contributions.size() == 1) return contributions[0];
  std::size_t lower = 1;
  while (2 * lower < contributions.size()) lower *= 2;
  const float a = Element::value(along_tree<Element>(contributions.first(lower)));
  const float b = Element::value(along_tree<Element>(contributions.subspan(lower)));
  return Element::rounded(a + b);
}

/// The contributions of `ranks` ranks: numbers of very different sizes, so that almost every other
/// order has other bits.
template <class Element>
std::vector<Vector<Element>> contributions(int ranks, std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Vector<Element>> all(ranks, Vector<Element>(count));
  for (Vector<Element>& own : all)
    for (auto& element : own) {
      const float mantissa = static_cast<float>(random() % 4096) / 2048.0F - 1.0F;
      element = Element::rounded(std::ldexp(mantissa, static_cast<int>(random() % 12)));
    }
  return all;
}

template <class Element>
Vector<Element> sums_of(const std::vector<Vector<Element>>& all) {
  Vector<Element> sums(all[0].size());
  Vector<Element> column(all.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    for (std::size_t rank = 0; rank < all.size(); ++rank) column[rank] = all[rank][i];
    sums[i] = along_tree<Element>(column);
  }
  return sums;
}

template <class Bits>
bool equal_bits(std::span<const Bits> a, std::span<const Bits> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

/// One call of one rank over `count` elements a block; the output it leaves.
template <class Element>
std::vector<typename Element::Bits> reduced(Communicator& communicator, Collective collective,
                                            const Vector<Element>& contribution, std::size_t count,
                                            bool in_place) {
  const std::size_t own =
      collective == Collective::kReduceScatter && in_place ? communicator.rank() * count : 0;
  Vector<Element> input = contribution;
  Vector<Element> output(count);
  Call call;
  call.collective = collective;
  call.send = input.data();
  call.recv = in_place ? input.data() + own : output.data();
  call.count = count;
  call.type = Element::kType;
  call.root = collective == Collective::kReduce ? communicator.size() - 1 : 0;
  const Status status = communicator.run(call);
  EXPECT_TRUE(status) << status.error().what;
  if (!in_place) return output;
  const auto first = input.begin() + static_cast<std::ptrdiff_t>(own);
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

/// Sums of `ranks` ranks, by each collective, in place and not, against the reference.
template <class Element>
void expect_the_tree(const Runtimes& runtimes, std::span<const std::size_t> counts) {
  const auto ranks = static_cast<int>(runtimes.size());
  const std::uint32_t seed = std::random_device{}();
  for (const std::size_t count : counts) {
    SCOPED_TRACE(
        fmt::format("{} ranks={} count={} seed={}", name_of(Element::kType), ranks, count, seed));
    const std::size_t blocks = ranks;  // of a reduce_scatter, which the others read the first of
    const auto all = contributions<Element>(ranks, blocks * count, seed);
    const auto sums = sums_of<Element>(all);
    run_ranks(runtimes, [&](Communicator& communicator) {
      const Rank rank = communicator.rank();
      for (const auto collective :
           {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce})
        for (const bool in_place : {false, true}) {
          const auto result =
              reduced<Element>(communicator, collective, all[rank], count, in_place);
          if (collective == Collective::kReduce && rank != ranks - 1) continue;
          const std::size_t block = collective == Collective::kReduceScatter ? rank : 0;
          EXPECT_TRUE(equal_bits(std::span(result), std::span(sums).subspan(block * count, count)))
              << name_of(collective) << (in_place ? " in place" : "") << " rank " << rank;
        }
    });
  }
}

const testing::SettingValues kTree = {{"ALGO", "fixed_tree"}};
/// Odd ones, and one of several slices.
const std::vector<std::size_t> kTreeCounts = {1, 7, 1'001, kSanitized ? 20'011U : 100'003U};

class FixedTree : public ::testing::TestWithParam<std::tuple<Placement, int>> {};

TEST_P(FixedTree, GivesTheBitsOfTheReference) {
  const auto [placement, ranks] = GetParam();
  const Runtimes runtimes = make_test_runtimes(placement, ranks, kTree);
  expect_the_tree<Float32>(runtimes, kTreeCounts);
  expect_the_tree<Brain>(runtimes, kTreeCounts);
  expect_the_tree<Half>(runtimes, kTreeCounts);
}

std::string name_of_tree(const ::testing::TestParamInfo<FixedTree::ParamType>& info) {
  const auto [placement, ranks] = info.param;
  return testing::name_of(placement) + "_" + std::to_string(ranks);
}
INSTANTIATE_TEST_SUITE_P(OneHost, FixedTree,
                         ::testing::Combine(::testing::Values(Placement::kThreads),
                                            ::testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9, 16)),
                         name_of_tree);
INSTANTIATE_TEST_SUITE_P(Processes, FixedTree,
                         ::testing::Combine(::testing::Values(Placement::kProcesses),
                                            ::testing::Values(2, 3, 4)),
                         name_of_tree);
INSTANTIATE_TEST_SUITE_P(Hosts, FixedTree,
                         ::testing::Combine(::testing::Values(Placement::kHosts, Placement::kMixed),
                                            ::testing::Values(2, 3, 4, 7)),
                         name_of_tree);

/// Rank r's contribution is the sum of those of ranks 2r and 2r+1 of twice as many.
template <class Element>
std::vector<Vector<Element>> added_in_pairs(const std::vector<Vector<Element>>& all) {
  std::vector<Vector<Element>> pairs;
  for (std::size_t rank = 0; rank < all.size(); rank += 2)
    pairs.push_back(sums_of<Element>({all[rank], all[rank + 1]}));
  return pairs;
}

TEST(FixedTreeOverHalfTheRanks, GivesTheSameBitsWhereNeighboursWereAddedBefore) {
  const std::uint32_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed={}", seed));
  constexpr std::size_t kCount = 5'003;
  const auto all = contributions<Brain>(8, kCount, seed);
  const auto sum_by_ranks = [](const std::vector<Vector<Brain>>& each) {
    Vector<Brain> sum;
    const auto runtimes =
        make_test_runtimes(Placement::kMixed, static_cast<int>(each.size()), kTree);
    run_ranks(runtimes, [&](Communicator& communicator) {
      const auto result = reduced<Brain>(communicator, Collective::kAllReduce,
                                         each[communicator.rank()], kCount, false);
      if (communicator.rank() == 0) sum = result;
    });
    return sum;
  };
  const Vector<Brain> by_eight = sum_by_ranks(all);
  const auto four = added_in_pairs<Brain>(all);
  EXPECT_EQ(by_eight, sum_by_ranks(four));
  EXPECT_EQ(by_eight, sum_by_ranks(added_in_pairs<Brain>(four)));
}

TEST(FixedTreeForOneCollective, LeavesTheOthersToTheLibrary) {
  const std::vector<std::size_t> counts = {3'001};
  const std::uint32_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed={}", seed));
  const auto all = contributions<Float32>(4, 4 * counts[0], seed);
  const auto sums = sums_of<Float32>(all);
  run_ranks(make_test_runtime(), 4, [&](Communicator& communicator) {
    for (const bool kernel_reads : {false, true}) {
      const Status chosen =
          communicator.ask_for_algorithm(Collective::kAllReduce, "fixed_tree", kernel_reads);
      ASSERT_TRUE(chosen) << chosen.error().what;
      const auto result = reduced<Float32>(communicator, Collective::kAllReduce,
                                           all[communicator.rank()], counts[0], false);
      EXPECT_TRUE(equal_bits(std::span(result), std::span(sums).first(counts[0])));
    }
  });
}

}  // namespace
}  // namespace tutti
