// Collectives while the library finds out how to run them: nobody sees it in the results.
#include <cstring>
#include <latch>
#include <random>

#include <gmock/gmock.h>

#include "src/comm/job_settings.hpp"
#include "src/cost/tuning.hpp"
#include "tests/collectives/cases.hpp"
#include "tests/collectives/ranks.hpp"

namespace tutti {
namespace {

using testing::call_of;
using testing::cases_of;
using ::testing::HasSubstr;
using testing::make_test_runtimes;
using testing::Placement;
using testing::run_cases;
using testing::run_ranks;
using testing::Runtimes;

constexpr int kCallsOfACourse = 48;
constexpr int kCalls = kCallsOfACourse + 4;

/// How often anything but the guess is asked for.
std::size_t verdicts_of(const Runtimes& runtimes) {
  return runtimes.front()->tuning->table().ranges().size();
}

/// Whatever has no exact sum, the same in every run.
std::vector<std::byte> random_input(Rank rank, const Call& call, std::size_t bytes) {
  std::mt19937 random(static_cast<unsigned>(rank * 1000 + static_cast<int>(call.collective)));
  std::vector<std::byte> input(bytes);
  std::normal_distribution<float> numbers;
  for (std::size_t i = 0; i + 4 <= bytes; i += 4) {
    const float pair[2] = {numbers(random), numbers(random)};
    std::uint32_t bits = 0, other = 0;
    std::memcpy(&bits, &pair[0], 4);
    std::memcpy(&other, &pair[1], 4);
    if (call.type == DataType::kBfloat16) bits = (bits & 0xffff0000U) | other >> 16;
    std::memcpy(input.data() + i, &bits, 4);
  }
  return input;
}

using Outputs = std::vector<std::vector<std::byte>>;  ///< by rank

/// The outputs of `calls` calls, which must all be the same.
Outputs outputs_of(const Runtimes& runtimes, const Call& made, int calls) {
  Outputs outputs(runtimes.size());
  run_ranks(runtimes, [&](Communicator& communicator) {
    const Rank rank = communicator.rank();
    const BufferBytes bytes = buffer_bytes(made, rank, communicator.size());
    const std::vector<std::byte> input = random_input(rank, made, bytes.send);
    Call call = made;
    call.send = input.data();
    for (int i = 0; i < calls; ++i) {
      std::vector<std::byte> output(bytes.recv);
      call.recv = output.data();
      const Status status = communicator.run(call);
      ASSERT_TRUE(status) << status.error().what;
      if (i == 0) outputs[rank] = output;
      ASSERT_EQ(outputs[rank], output) << describe(signature_of(call)) << " call " << i;
    }
  });
  return outputs;
}

class Trials : public ::testing::TestWithParam<int> {};

TEST_P(Trials, DoNotChangeABitOfAnyResult) {
  const Runtimes measure = make_test_runtimes(Placement::kProcesses, GetParam());
  const Runtimes guess = make_test_runtimes(Placement::kProcesses, GetParam(), {{"TUNING", "off"}});
  const std::size_t sizes = kSanitized ? 2 : 8;
  for (int c = 0; c < 8; ++c)
    for (std::size_t size = 0; size < sizes; ++size) {
      Call call;
      call.collective = static_cast<Collective>(c);
      call.type = size % 2 == 0 ? DataType::kFloat32 : DataType::kBfloat16;
      call.op = size % 3 == 0 ? ReduceOp::kAvg : ReduceOp::kSum;
      call.count = (std::size_t{4096} << (kSanitized ? 2 * size : size)) / size_of(call.type) - 2;
      call.root = GetParam() - 1;
      const Outputs expected = outputs_of(guess, call, 1);
      EXPECT_EQ(outputs_of(measure, call, kCalls), expected) << describe(signature_of(call));
    }
  EXPECT_GT(verdicts_of(measure), 0U);
  EXPECT_EQ(verdicts_of(guess), 0U);
}

// In place on some ranks and not on others, each algorithm decides by itself what fits together.
TEST_P(Trials, MayBeMadeInPlace) {
  const auto runtimes = make_test_runtimes(Placement::kProcesses, GetParam());
  std::vector<testing::Case> cases;
  for (const testing::Case& one : cases_of(GetParam(), {9001}, {DataType::kFloat32})) {
    if (one.op != ReduceOp::kSum && one.op != ReduceOp::kPreMulSum) continue;
    for (int i = 0; i < 25; ++i) {
      cases.push_back(one);
      cases.back().in_place_ranks = i % 2 == 0 ? 0b0101 : ~0U;
    }
  }
  run_ranks(runtimes, [&](Communicator& communicator) { run_cases(communicator, cases); });
  EXPECT_GT(verdicts_of(runtimes), 0U);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Trials, ::testing::Values(2, 3, 4, 5));

struct Spread {
  Placement placement;
  int ranks;
};
void PrintTo(const Spread& spread, std::ostream* out) {
  *out << spread.ranks << " on " << testing::name_of(spread.placement);
}

class TrialsBetweenHosts : public ::testing::TestWithParam<Spread> {};

constexpr int kCallsOfThreeWays = 72;

TEST_P(TrialsBetweenHosts, DoNotChangeABitOfAnyResult) {
  const auto [placement, n] = GetParam();
  const Runtimes measure = make_test_runtimes(placement, n);
  const Runtimes guess = make_test_runtimes(placement, n, {{"TUNING", "off"}});
  Call call;
  call.root = n - 1;
  call.count = 5001;
  for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather,
                                      Collective::kReduceScatter, Collective::kBroadcast})
    for (const DataType type : {DataType::kFloat32, DataType::kInt32}) {
      call.collective = collective;
      call.type = type;
      const Outputs expected = outputs_of(guess, call, 1);
      EXPECT_EQ(outputs_of(measure, call, kCallsOfThreeWays + 4), expected)
          << describe(signature_of(call));
    }
  EXPECT_EQ(verdicts_of(measure), n == 2 ? 1U : 4U);
  EXPECT_EQ(verdicts_of(guess), 0U);
}

TEST_P(TrialsBetweenHosts, AreMadeOnceAProcessAndPlacement) {
  const auto [placement, n] = GetParam();
  const Runtimes runtimes = make_test_runtimes(placement, n);
  Call call;
  call.count = 20'000;
  call.type = DataType::kInt32;
  outputs_of(runtimes, call, kCallsOfThreeWays + 4);
  const MeasuredTable first = runtimes[0]->tuning->table();
  ASSERT_EQ(first.ranges().size(), 1U);
  const Arrangement& arrangement = first.ranges()[0].arrangement;
  EXPECT_EQ(arrangement.hosts, placement == Placement::kMixed ? 2 : n);
  EXPECT_EQ(arrangement.most_on_a_host, placement == Placement::kMixed ? 2 : 1);
  EXPECT_EQ(arrangement.machines, 1);
  outputs_of(runtimes, call, kCallsOfThreeWays + 4);
  EXPECT_EQ(runtimes[0]->tuning->table(), first);
}

TEST_P(TrialsBetweenHosts, AreMadeOfEachNetwork) {
  const auto [placement, n] = GetParam();
  const Runtimes runtimes = make_test_runtimes(placement, n);
  Arrangement here{n, n, 1, 0, 1};
  if (placement == Placement::kMixed) here = {n, 2, 2, 0, 1};
  Arrangement faster = here, elsewhere = here;
  faster.mbit_per_s = 1000;
  elsewhere.machines = 2;
  const bool in_levels = placement == Placement::kMixed;
  const std::string guess = n == 2 ? "one_shot" : in_levels ? "hierarchical_ring" : "ring";
  const std::string other = n == 2 ? "two_shot" : in_levels ? "leader_doubling" : "circulant";
  const auto chosen = [&](const Arrangement& arrangement) {
    runtimes[0]->tuning->add(verdict_on({Collective::kAllReduce, 17}, arrangement, {other}), false);
    std::string algorithm;
    run_ranks(runtimes, [&](Communicator& communicator) {
      std::vector<int> data(20'000);
      const auto name = communicator.algorithm_for(call_of(Collective::kAllReduce, data));
      if (communicator.rank() == n - 1) algorithm = *name;
    });
    return algorithm;
  };
  EXPECT_EQ(chosen(faster), guess);
  EXPECT_EQ(chosen(elsewhere), guess);
  EXPECT_EQ(chosen(here), other);
}

// A maximum is tried and a sum is not: a plan of one that served the other, on the rank that has
// it, would leave the ranks with different algorithms for one call.
TEST_P(TrialsBetweenHosts, KeepOperatorsApart) {
  const auto [placement, n] = GetParam();
  const Runtimes runtimes = make_test_runtimes(placement, n);
  testing::Case sum;
  sum.request = {Collective::kAllReduce, n, 0, true};
  sum.count = 20'000;
  sum.in_place_ranks = 0b10;
  testing::Case maximum = sum;
  maximum.op = ReduceOp::kMax;
  maximum.request.in_place = false;
  std::vector<testing::Case> cases = {sum};
  cases.insert(cases.end(), kCallsOfACourse + 4, maximum);
  cases.push_back(sum);
  run_ranks(runtimes, [&](Communicator& communicator) { run_cases(communicator, cases); });
  EXPECT_EQ(verdicts_of(runtimes), n == 2 ? 1U : 0U);
}

INSTANTIATE_TEST_SUITE_P(Ranks, TrialsBetweenHosts,
                         ::testing::Values(Spread{Placement::kHosts, 2},
                                           Spread{Placement::kHosts, 3},
                                           Spread{Placement::kMixed, 4}));

// The root of a broadcast waits for nobody, so it comes to the call after a course before the
// others have made their last try.
TEST(Trials, BetweenHostsWhosePeerLeavesOrAbortsEndInAnErrorThatNamesIt) {
  constexpr int kRanks = 3;
  const auto runtimes = make_test_runtimes(Placement::kHosts, kRanks);
  for (const bool aborts : {false, true}) {
    std::latch made(kRanks);
    run_ranks(runtimes, [&](Communicator& communicator) {
      std::vector<float> data(4000);
      const Call call = call_of(Collective::kBroadcast, data);
      const bool fails = communicator.rank() == 1;
      for (int i = 0; i < kCallsOfACourse - (fails ? 1 : 0); ++i)
        EXPECT_TRUE(communicator.run(call));
      made.arrive_and_wait();
      if (fails) return aborts ? communicator.abort({}) : void();
      const Status status = communicator.run(call);
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code, Code::kPeerFailed) << status.error().what;
      EXPECT_THAT(status.error().what, HasSubstr("rank 1"));
    });
    EXPECT_EQ(verdicts_of(runtimes), 0U);
  }
}

/// All ranks of a group whose processes are this one, for one thread to drive.
std::vector<std::unique_ptr<Communicator>> all_ranks_of(const Runtimes& runtimes) {
  const int n = static_cast<int>(runtimes.size());
  auto group = in_process_group(n);
  std::vector<std::unique_ptr<Communicator>> communicators(n);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank)
    threads.emplace_back([&, rank] {
      auto made = Communicator::create(runtimes[rank], std::move(group[rank]), {},
                                       Deadline::after(std::chrono::seconds(30)));
      ASSERT_TRUE(made) << made.error().what;
      communicators[rank] = *std::move(made);
    });
  for (std::thread& thread : threads) thread.join();
  return communicators;
}

TEST(Trials, OfSeveralCommunicatorsRunInOneGroupOfOneThread) {
  constexpr int kRanks = 3, kGroups = 2;
  constexpr std::size_t kCount = 20000;
  const auto runtimes = make_test_runtimes(Placement::kProcesses, kRanks);
  std::vector<std::vector<std::unique_ptr<Communicator>>> groups;
  for (int g = 0; g < kGroups; ++g) groups.push_back(all_ranks_of(runtimes));
  for (int i = 0; i < kCalls; ++i) {
    std::vector<std::vector<float>> data;
    std::vector<GroupMember*> all;
    for (auto& group : groups)
      for (auto& communicator : group)
        data.emplace_back(kCount, static_cast<float>(communicator->rank() + i));
    for (std::size_t k = 0; k < data.size(); ++k) {
      all.push_back(groups[k / kRanks][k % kRanks].get());
      const Call twice[] = {call_of(Collective::kAllReduce, data[k]),
                            call_of(Collective::kBroadcast, data[k], 1)};
      ASSERT_TRUE(all.back()->start(twice));
    }
    const Status status = run_group(all);
    ASSERT_TRUE(status) << status.error().what;
    for (const auto& each : data)
      ASSERT_EQ(each, std::vector<float>(kCount, static_cast<float>(3 + 3 * i)));
  }
  EXPECT_EQ(verdicts_of(runtimes), 2U);
}

TEST(Trials, AreMadeOnceAProcess) {
  const auto runtimes = make_test_runtimes(Placement::kProcesses, 2);
  Call call;
  call.collective = Collective::kAllGather;
  call.count = 20000;
  outputs_of(runtimes, call, kCalls);
  const MeasuredTable first = runtimes[0]->tuning->table();
  ASSERT_EQ(first.ranges().size(), 1U);
  outputs_of(runtimes, call, kCalls);
  EXPECT_EQ(runtimes[0]->tuning->table(), first);
}

// What a program does not want for its calls may be all that the ranks can tell each other by.
TEST(Trials, AreToldWhicheverAlgorithmsAreExcluded) {
  for (const Placement placement : {Placement::kProcesses, Placement::kHosts}) {
    const auto runtimes =
        make_test_runtimes(placement, 2, {{"ALGO", "allgather:^direct,ring,circulant"}});
    Call call;
    call.count = 20'000;
    call.type = DataType::kInt32;
    outputs_of(runtimes, call, kCalls);
    EXPECT_EQ(verdicts_of(runtimes), 1U);
  }
}

// What rank 0 knows all ranks run, even what no measurement would have said.
TEST(Trials, AreNotMadeOfWhatRankZeroKnows) {
  const auto runtimes = make_test_runtimes(Placement::kProcesses, 2);
  for (const char* const algorithm : {"one_shot", "two_shot"}) {
    const MeasuredRange known =
        verdict_on({Collective::kAllReduce, 17}, {2, 1, 2}, {algorithm, false});
    runtimes[0]->tuning->add(known, false);
    run_ranks(runtimes, [&](Communicator& communicator) {
      std::vector<float> data(32768, 1.0F);
      const Call call = call_of(Collective::kAllReduce, data);
      EXPECT_EQ(*communicator.algorithm_for(call), algorithm);
      ASSERT_TRUE(communicator.run(call));
      EXPECT_EQ(data, std::vector<float>(32768, 2.0F));
    });
    EXPECT_EQ(runtimes[0]->tuning->table().ranges(), std::vector<MeasuredRange>{known});
  }
}

// More than rank 0 tells are known, and those that it tells are not the first by class.
TEST(Trials, AreNotMadeOfTheNewestThatRankZeroKnows) {
  const auto runtimes = make_test_runtimes(Placement::kProcesses, 2);
  MeasuredStore& store = *runtimes[0]->tuning;
  for (std::uint8_t size = 0; size <= 24; ++size)
    for (std::uint32_t mbit_per_s = 0; mbit_per_s <= 40; ++mbit_per_s)
      store.add(
          verdict_on({Collective::kAllReduce, size}, {2, 2, 1, 0, 1, mbit_per_s}, {"ring"}, 1),
          false);
  ASSERT_GE(store.table().ranges().size(), kMostSentRanges);
  store.add(verdict_on({Collective::kReduce, 17}, {2, 1, 2}, {"two_shot"}, 2), false);
  run_ranks(runtimes, [&](Communicator& communicator) {
    std::vector<float> data(32768, 1.0F);
    EXPECT_EQ(*communicator.algorithm_for(call_of(Collective::kReduce, data)), "two_shot");
  });
}

TEST(Trials, AreNotMadeInMappedMemory) {
  const auto runtimes = make_test_runtimes(Placement::kThreads, 2);
  Call call;
  call.collective = Collective::kAllToAll;
  call.count = 20000;
  outputs_of(runtimes, call, 2 * kCalls);
  EXPECT_EQ(verdicts_of(runtimes), 0U);
}

// Published, a reduce is over for all but its root at once; then they wait for a verdict, for which
// the root has not made its last try.
TEST(Trials, OfRanksWhosePeerLeavesOrAbortsEndInAnErrorThatNamesIt) {
  constexpr int kRanks = 4;
  const auto runtimes = make_test_runtimes(Placement::kProcesses, kRanks);
  for (const bool aborts : {false, true}) {
    std::latch made(kRanks);
    run_ranks(runtimes, [&](Communicator& communicator) {
      std::vector<float> input(8000), output(8000);
      Call call = call_of(Collective::kReduce, input);
      call.recv = output.data();
      const bool root = communicator.rank() == 0;
      for (int i = 0; i < kCallsOfACourse - (root ? 1 : 0); ++i)
        EXPECT_TRUE(communicator.run(call));
      made.arrive_and_wait();
      if (root) return aborts ? communicator.abort({}) : void();
      const Status status = communicator.run(call);
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code, Code::kPeerFailed) << status.error().what;
      EXPECT_THAT(status.error().what, HasSubstr("rank 0"));
    });
  }
}

}  // namespace
}  // namespace tutti
