// Every collective x type x operator x number of ranks x size x in place or not.
#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"
#include "tests/collectives/cases.hpp"
#include "tests/collectives/ranks.hpp"

namespace tutti {
namespace {

using testing::all_ranks;
using testing::all_types;
using testing::call_of;
using testing::cases_for;
using testing::cases_of;
using testing::make_test_runtime;
using testing::run_cases;
using testing::run_ranks;

class Collectives : public ::testing::TestWithParam<int> {};

TEST_P(Collectives, OfEveryTypeAndOperatorAreRightAtSmallSizes) {
  const auto cases = cases_of(GetParam(), {0, 1, 5, 129}, all_types());
  run_ranks(make_test_runtime(), GetParam(),
            [&](Communicator& communicator) { run_cases(communicator, cases); });
}

TEST_P(Collectives, AreRightWhereBuffersAreReachedDirectly) {
  run_ranks(make_test_runtime(), GetParam(), [&](Communicator& communicator) {
    run_cases(communicator, cases_of(GetParam(), {70001}, {DataType::kFloat32, DataType::kUint8}));
  });
}

TEST_P(Collectives, AreRightBeyondOneSliceOfStaging) {
  const auto cases =
      cases_of(GetParam(), {70001}, {DataType::kFloat32, DataType::kBfloat16, DataType::kUint8});
  run_ranks(make_test_runtime({{"STAGING_BYTES", "64K"}, {"DIRECT", "0"}}), GetParam(),
            [&](Communicator& communicator) { run_cases(communicator, cases); });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, ::testing::Values(1, 2, 3, 4, 5, 7, 8));

class EveryAlgorithm : public ::testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(EveryAlgorithm, GivesTheSameResultAsTheReference) {
  const auto [algorithm, ranks] = GetParam();
  const auto cases = cases_for(ranks, {1, 129, kSanitized ? 9001 : 20011});
  for (const char* direct : {"1", "0"})
    run_ranks(make_test_runtime({{"ALGO", algorithm}, {"DIRECT", direct}}), ranks,
              [&](Communicator& communicator) { run_cases(communicator, cases); });
}

std::vector<std::string> algorithm_names() {
  std::vector<std::string> names;
  for (const ir::Algorithm& algorithm : algorithms::all()) names.emplace_back(algorithm.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Named, EveryAlgorithm,
                         ::testing::Combine(::testing::ValuesIn(algorithm_names()),
                                            ::testing::Values(2, 3, 4, 5)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST(Collectives, ThatOnlyMoveDataAreStagedWhereInputsMayNotBeRead) {
  const auto runtime = make_test_runtime({{"DIRECT", "0"}});
  const auto cases = cases_of(3, {9001}, {DataType::kFloat32});
  run_ranks(runtime, 3, [&](Communicator& communicator) { run_cases(communicator, cases); });
}

TEST(Collectives, ReadInputsInSharedMemoryThroughTheirMapping) {
  constexpr std::size_t kCount = 20011;
  const auto runtime = make_test_runtime();
  run_ranks(runtime, 3, [&](Communicator& communicator) {
    const auto memory = runtime->heap->allocate(kCount * sizeof(float));
    ASSERT_TRUE(memory) << memory.error().what;
    auto* const input = reinterpret_cast<float*>(memory->data());
    std::vector<float> output(3 * kCount);
    Call call;
    call.collective = Collective::kAllGather;
    call.send = input;
    call.recv = output.data();
    call.count = kCount;
    for (int round = 0; round < 4; ++round) {
      std::fill_n(input, kCount, static_cast<float>(10 * round + communicator.rank()));
      const Status status = communicator.run(call);
      ASSERT_TRUE(status) << status.error().what;
      for (std::size_t i = 0; i < output.size(); ++i)
        ASSERT_EQ(output[i], static_cast<float>(10 * round + static_cast<int>(i / kCount)));
    }
    EXPECT_TRUE(runtime->heap->free(memory->data()));
  });
}

TEST(Collectives, OneThreadDrivesEightRanks) {
  constexpr int kRanks = 8;
  auto communicators = all_ranks(kRanks);
  for (const std::size_t count : {1u, 1000u, 300000u}) {
    std::vector<std::vector<float>> data(kRanks);
    std::vector<GroupMember*> all;
    for (int rank = 0; rank < kRanks; ++rank) {
      data[rank].assign(count, static_cast<float>(rank));
      Call call;
      call.send = call.recv = data[rank].data();
      call.count = count;
      ASSERT_TRUE(communicators[rank]->start({&call, 1}));
      all.push_back(communicators[rank].get());
    }
    ASSERT_TRUE(run_group(all));
    for (const auto& result : data) EXPECT_EQ(result, std::vector<float>(count, 28.0f));
  }
}

/// More than one op adds up, so that a rank reads its own first sum again, and more than there are
/// bits for readers of an entry; calls enough to refill every entry, note and packet.
TEST(Collectives, OfSeventyRanksAreRightInOneShot) {
  constexpr int kRanks = 70;
  auto communicators = all_ranks(kRanks, {{"ALGO", "one_shot"}});
  for (const std::size_t count : {2u, 100u, 1000u}) {
    std::vector<std::vector<float>> sent(kRanks), received(kRanks, std::vector<float>(count));
    for (int round = 0; round < (kSanitized ? 70 : 140); ++round) {
      std::vector<GroupMember*> all;
      for (int rank = 0; rank < kRanks; ++rank) {
        sent[rank].assign(count, static_cast<float>(rank + round));
        Call call;
        call.send = sent[rank].data();
        call.recv = received[rank].data();
        call.count = count;
        ASSERT_TRUE(communicators[rank]->start({&call, 1}));
        all.push_back(communicators[rank].get());
      }
      ASSERT_TRUE(run_group(all));
      const std::vector<float> sum(count,
                                   static_cast<float>(kRanks * (kRanks - 1) / 2 + kRanks * round));
      for (const auto& result : received) ASSERT_EQ(result, sum) << "round " << round;
    }
  }
}

TEST(Collectives, WithoutReductionIgnoreTheOperator) {
  auto ranks = all_ranks(2);
  std::vector<float> data[2] = {{3, 4}, {0, 0}};
  std::vector<GroupMember*> all;
  for (int rank = 0; rank < 2; ++rank) {
    Call call;
    call.collective = Collective::kBroadcast;
    call.send = call.recv = data[rank].data();
    call.count = 2;
    call.op = ReduceOp::kPreMulSum;  // its factor is 0
    ASSERT_TRUE(ranks[rank]->start({&call, 1}));
    all.push_back(ranks[rank].get());
  }
  ASSERT_TRUE(run_group(all));
  EXPECT_EQ(data[1], data[0]);
}

TEST(Collectives, SplitGroupsByColorAndOrdersByKey) {
  run_ranks(make_test_runtime(), 5, [](Communicator& communicator) {
    const Rank rank = communicator.rank();
    const int color = rank == 4 ? -1 : rank % 2;
    auto part = communicator.split(color, -rank, {}, Deadline::after(std::chrono::seconds(30)));
    ASSERT_TRUE(part) << part.error().what;
    if (rank == 4) {
      EXPECT_EQ(*part, nullptr);
      return;
    }
    EXPECT_EQ((*part)->size(), 2);
    EXPECT_EQ((*part)->rank(), rank < 2 ? 1 : 0);
    float value = static_cast<float>(rank);
    Call call;
    call.send = call.recv = &value;
    call.count = 1;
    ASSERT_TRUE((*part)->run(call));
    EXPECT_EQ(value, color == 0 ? 2.0f : 4.0f);
  });
}

// A call like the last one skips what the last one found out; what may have changed is looked at.
TEST(Collectives, ARepeatedCallSeesNewDataNewFactorsAndWhatCameBetween) {
  run_ranks(make_test_runtime(), 2, [](Communicator& communicator) {
    const Rank rank = communicator.rank();
    std::vector<float> input(100), output(100), mail(100);
    Call sum = call_of(Collective::kAllReduce, input);
    sum.recv = output.data();
    const auto expect_sum = [&](const Call& call, float value, float expected) {
      std::ranges::fill(input, value);
      const Status status = communicator.run(call);
      ASSERT_TRUE(status) << status.error().what;
      EXPECT_EQ(std::ranges::count(output, expected), 100) << "got " << output[0];
    };
    for (int repeat = 1; repeat <= 200; ++repeat) expect_sum(sum, repeat, 2 * repeat);
    Call scaled = sum;
    scaled.op = ReduceOp::kPreMulSum;
    for (const float factor : {2.0F, 2.0F, 3.0F}) {
      std::memcpy(scaled.scalar, &factor, sizeof factor);
      expect_sum(scaled, 5, 10 * factor);
    }
    expect_sum(sum, 7, 14);
    EXPECT_TRUE(communicator.run(
        call_of(rank == 0 ? Collective::kSend : Collective::kRecv, mail, 1 - rank)));
    expect_sum(sum, 8, 16);
    Call wrong = sum;
    wrong.root = 0;
    wrong.recv = nullptr;
    for (int repeat = 0; repeat < 2; ++repeat)
      EXPECT_EQ(communicator.run(wrong).error().code, Code::kInvalidArgument);
    expect_sum(sum, 9, 18);
  });
}

}  // namespace
}  // namespace tutti
