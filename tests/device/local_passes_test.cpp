// What ranks that share a GPU do all together: every direct program of every algorithm, on small
// integers.
#include "src/exec/cuda/local_passes.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "src/ir/request.hpp"
#include "tests/device/programs.hpp"

namespace tutti::device::testing {
namespace {

using exec::cuda::LocalPassPlaces;
using exec::cuda::RankPlace;

constexpr std::size_t kElement = sizeof(std::int32_t);

std::int32_t given(Rank rank, std::size_t i) {
  return 1000 * (rank + 1) + static_cast<std::int32_t>(i % 61);
}

/// The buffers of one rank, which overlap where the request says so.
struct Memory {
  std::vector<std::int32_t> words;
  std::size_t input = 0, output = 0;  ///< where they begin
};

class Ranks {
 public:
  Ranks(const ir::Request& request, std::size_t count) : request_(request), count_(count) {
    for (Rank rank = 0; rank < request.ranks; ++rank) {
      const ir::BlockCounts blocks = ir::block_counts(request, rank);
      const ir::Aliasing overlap = ir::aliasing(request, rank);
      Memory memory;
      memory.output = static_cast<std::size_t>(blocks.input) * count;
      if (request.in_place && overlap.exists) {
        memory.input = static_cast<std::size_t>(overlap.output_block) * count;
        memory.output = static_cast<std::size_t>(overlap.input_block) * count;
      }
      memory.words.assign(static_cast<std::size_t>(blocks.input + blocks.output) * count + 1, -1);
      for (std::size_t i = 0; i < static_cast<std::size_t>(blocks.input) * count; ++i)
        memory.words[memory.input + i] = given(rank, i);
      memories_.push_back(std::move(memory));
    }
  }

  void run(const LocalPassPlaces& pass) {
    for (std::size_t i = 0; i < pass.elements; ++i) {
      std::int32_t value = 0;
      for (const RankPlace& source : pass.sources) value += at(source, i);
      for (const RankPlace& destination : pass.destinations) at(destination, i) = value;
    }
  }

  void expect_right() {
    for (Rank rank = 0; rank < request_.ranks; ++rank) {
      const auto blocks = static_cast<std::size_t>(ir::block_counts(request_, rank).output);
      for (std::size_t block = 0; block < blocks; ++block)
        for (std::size_t i = 0; i < count_; ++i)
          ASSERT_EQ(at({rank, true, (block * count_ + i) * kElement}, 0),
                    expected(rank, static_cast<Rank>(block), i))
              << "rank " << rank << ", block " << block << ", element " << i;
    }
  }

 private:
  std::int32_t& at(const RankPlace& place, std::size_t i) {
    Memory& memory = memories_[static_cast<std::size_t>(place.rank)];
    const std::size_t begin = place.output ? memory.output : memory.input;
    return memory.words.at(begin + place.offset / kElement + i);
  }

  [[nodiscard]] std::int32_t sum(std::size_t i) const {
    std::int32_t total = 0;
    for (Rank rank = 0; rank < request_.ranks; ++rank) total += given(rank, i);
    return total;
  }

  [[nodiscard]] std::int32_t expected(Rank rank, Rank block, std::size_t i) const {
    const auto of_block = [&](Rank number) {
      return static_cast<std::size_t>(number) * count_ + i;
    };
    switch (request_.collective) {
      case Collective::kAllReduce:
      case Collective::kReduce:
        return sum(i);
      case Collective::kReduceScatter:
        return sum(of_block(rank));
      case Collective::kAllGather:
      case Collective::kGather:
        return given(block, i);
      case Collective::kBroadcast:
        return given(request_.root, i);
      case Collective::kScatter:
        return given(request_.root, of_block(rank));
      default:
        return given(block, of_block(rank));  // all_to_all
    }
  }

  const ir::Request request_;
  const std::size_t count_;
  std::vector<Memory> memories_;
};

std::vector<Lowering> direct_lowerings(Rank ranks) {
  std::vector<Lowering> all = all_lowerings(ranks);
  std::erase_if(all, [](const Lowering& one) {
    return one.lowered.protocol != lower::ProgramProtocol::kDirect || one.scales_input;
  });
  return all;
}

class LocalPasses : public ::testing::TestWithParam<Rank> {};

TEST_P(LocalPasses, DoWhatTheCollectiveSays) {
  for (const Lowering& one : direct_lowerings(GetParam()))
    for (const std::size_t count : {0, 1, 7, 130}) {
      const ir::Request& request = one.lowered.request;
      SCOPED_TRACE(::testing::Message()
                   << one.lowered.algorithm << " " << name_of(request.collective) << " root "
                   << request.root << (request.in_place ? " in place" : "") << ", count " << count);
      const auto passes = exec::cuda::local_passes(one.lowered, {count, DataType::kInt32, nullptr});
      ASSERT_TRUE(passes) << passes.error().what;
      Ranks ranks(request, count);
      for (const LocalPassPlaces& pass : *passes) ranks.run(pass);
      ASSERT_NO_FATAL_FAILURE(ranks.expect_right());
    }
}

INSTANTIATE_TEST_SUITE_P(Of, LocalPasses, ::testing::Values(1, 2, 3, 4, 5, 8, 13));

TEST(LocalPasses, LoadWhatRanksHaveInCommonOnce) {
  for (const Lowering& one : lowerings_of("one_shot", Collective::kAllReduce, 8)) {
    if (one.lowered.protocol != lower::ProgramProtocol::kDirect || one.scales_input) continue;
    const auto passes = exec::cuda::local_passes(one.lowered, {1000, DataType::kFloat32, nullptr});
    ASSERT_TRUE(passes);
    ASSERT_EQ(passes->size(), 1U);
    EXPECT_EQ(passes->front().sources.size(), 8U);
    EXPECT_EQ(passes->front().destinations.size(), 8U);
  }
}

}  // namespace
}  // namespace tutti::device::testing
