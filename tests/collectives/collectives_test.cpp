// Every collective x type x operator x number of ranks x size x in place or not, against a plain
// reference. Inputs are small integers, so every sum and product is exact in every type.
#include <cstring>
#include <ctime>
#include <functional>
#include <mutex>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"
#include "src/base/float_formats.hpp"
#include "src/ir/request.hpp"
#include "tests/collectives/ranks.hpp"

namespace tutti {
namespace {

using testing::make_test_runtime;
using testing::run_ranks;

/// Exact for small integers in all types.
void store(DataType type, double value, std::byte* at) {
  const auto put = [&](auto typed) { std::memcpy(at, &typed, sizeof typed); };
  switch (type) {
    case DataType::kInt8:
      return put(static_cast<std::int8_t>(value));
    case DataType::kUint8:
      return put(static_cast<std::uint8_t>(value));
    case DataType::kInt32:
      return put(static_cast<std::int32_t>(value));
    case DataType::kUint32:
      return put(static_cast<std::uint32_t>(value));
    case DataType::kInt64:
      return put(static_cast<std::int64_t>(value));
    case DataType::kUint64:
      return put(static_cast<std::uint64_t>(value));
    case DataType::kFloat32:
      return put(static_cast<float>(value));
    case DataType::kFloat64:
      return put(value);
    case DataType::kFloat16:
      return put(narrow<Float16>(static_cast<float>(value)));
    case DataType::kBfloat16:
      return put(narrow<Bfloat16>(static_cast<float>(value)));
    case DataType::kFloat8e4m3:
      return put(narrow<Float8e4m3>(static_cast<float>(value)));
    case DataType::kFloat8e5m2:
      return put(narrow<Float8e5m2>(static_cast<float>(value)));
  }
}

/// The contribution of `rank` to element `index` of its input: 0, 1 or 2 (1 or 2 for products).
double contribution(Rank rank, std::size_t index, ReduceOp op) {
  const std::size_t mixed = (index * 2654435761u + static_cast<std::size_t>(rank) * 40503u) >> 3;
  if (op == ReduceOp::kProd) return rank < 2 ? static_cast<double>(1 + mixed % 2) : 1.0;
  return static_cast<double>(mixed % 3 == 2 && rank < 4 ? 2 : mixed % 2);
}

double combine(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kMin:
      return std::min(a, b);
    default:
      return a + b;
  }
}

struct Case {
  ir::Request request;  ///< in_place: of the ranks in `in_place_ranks`
  std::size_t count = 0;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::uint32_t in_place_ranks = ~std::uint32_t{0};  ///< bit r: rank r
};

double reduced(const Case& test, std::size_t index) {
  const bool scales = test.op == ReduceOp::kPreMulSum;
  double sum = 0;
  for (Rank rank = 0; rank < test.request.ranks; ++rank) {
    double value = contribution(rank, index, test.op);
    if (scales) value *= 1 + rank % 2;
    sum = rank == 0 ? value : combine(test.op, sum, value);
  }
  return sum;
}

/// What output element `index` of `rank` must be.
double expected(const Case& test, Rank rank, std::size_t index) {
  const std::size_t count = test.count;
  const auto from = [&](Rank source, std::size_t i) { return contribution(source, i, test.op); };
  switch (test.request.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      return reduced(test, index);
    case Collective::kReduceScatter:
      return reduced(test, rank * count + index);
    case Collective::kBroadcast:
      return from(test.request.root, index);
    case Collective::kScatter:
      return from(test.request.root, rank * count + index);
    case Collective::kAllGather:
    case Collective::kGather:
      return from(static_cast<Rank>(index / count), index % count);
    case Collective::kAllToAll:
      return from(static_cast<Rank>(index / count), rank * count + index % count);
    default:
      return 0;
  }
}

/// One call on one rank, checked.
void run_case(Communicator& communicator, const Case& test) {
  const Rank rank = communicator.rank();
  const ir::BlockCounts blocks = ir::block_counts(test.request, rank);
  const std::size_t element = size_of(test.type);
  const std::size_t ins = blocks.input * test.count, outs = blocks.output * test.count;
  // One element off alignment, and a guard behind.
  std::vector<std::byte> input((ins + 1) * element + 64), output((outs + 1) * element + 64);
  std::byte* in = input.data() + element;
  std::byte* out = output.data() + element;
  ir::Request request = test.request;
  request.in_place = request.in_place && (test.in_place_ranks >> rank & 1) != 0;
  const ir::Aliasing alias = ir::aliasing(request, rank);
  if (request.in_place && request.collective == Collective::kAllToAll) {
    in = out;  // beyond NCCL, which does not define it
  } else if (request.in_place && alias.exists) {
    if (alias.output_block > 0 || blocks.output > blocks.input)
      in = out + alias.output_block * test.count * element;
    else
      out = in + alias.input_block * test.count * element;
  }
  for (std::size_t i = 0; i < ins; ++i)
    store(test.type, contribution(rank, i, test.op), in + i * element);
  const bool guarded = outs > 0 && !(request.in_place && alias.exists);
  if (guarded) std::memset(out + outs * element, 0x5a, 8);

  Call call;
  call.collective = test.request.collective;
  call.send = blocks.input > 0 ? in : nullptr;
  call.recv = blocks.output > 0 ? out : nullptr;
  call.count = test.count;
  call.type = test.type;
  call.op = test.op;
  call.root = test.request.root;
  if (test.op == ReduceOp::kPreMulSum) store(test.type, 1 + rank % 2, call.scalar);
  const std::string what =
      fmt::format("{} count={} {} {} root={} ranks={} in_place={} rank={}",
                  name_of(call.collective), call.count, name_of(call.type), name_of(call.op),
                  call.root, test.request.ranks, request.in_place, rank);
  const Status status = communicator.run(call);
  ASSERT_TRUE(status) << what << ": " << status.error().what;

  for (std::size_t i = 0; i < outs; ++i) {
    std::byte wanted[8] = {};
    double value = expected(test, rank, i);
    if (test.op == ReduceOp::kAvg) {
      value /= test.request.ranks;
      const bool integer = test.type <= DataType::kUint64;
      if (integer) value = std::trunc(value);
      if (test.type == DataType::kFloat64) {
        double sum = expected(test, rank, i) / test.request.ranks;
        std::memcpy(wanted, &sum, 8);
      } else {
        const float quotient =
            static_cast<float>(expected(test, rank, i)) / static_cast<float>(test.request.ranks);
        store(test.type, integer ? value : quotient, wanted);
      }
    } else {
      store(test.type, value, wanted);
    }
    ASSERT_EQ(std::memcmp(wanted, out + i * element, element), 0) << what << " element " << i;
  }
  for (std::size_t i = 0; guarded && i < 8; ++i)
    ASSERT_EQ(out[outs * element + i], std::byte{0x5a}) << what << " wrote beyond the end";
}

/// Every collective x type x operator, in place and not. Counts and roots: all of them up to three
/// ranks; above, each case takes the next ones in turn, so that all occur with all collectives.
std::vector<Case> cases_of(std::int32_t ranks, const std::vector<std::size_t>& counts,
                           const std::vector<DataType>& types) {
  std::size_t turn = 0;
  const auto is_taken = [&](std::size_t which, std::size_t choices) {
    return ranks <= 3 || which == turn % choices;
  };
  std::vector<Case> cases;
  for (int c = 0; c < 8; ++c) {
    const auto collective = static_cast<Collective>(c);
    for (const bool in_place : {false, true}) {
      for (const DataType type : types)
        for (int op = 0; op < (reduces(collective) ? kReduceOps : 1); ++op, ++turn)
          for (std::size_t i = 0; i < counts.size(); ++i)
            for (int last = 0; last < (rooted(collective) && ranks > 1 ? 2 : 1); ++last)
              if (is_taken(i, counts.size()) &&
                  (!rooted(collective) || ranks <= 3 ||
                   last == static_cast<int>(turn / counts.size() % 2)))
                cases.push_back({{collective, ranks, last * (ranks - 1), in_place},
                                 counts[i],
                                 type,
                                 static_cast<ReduceOp>(op)});
    }
  }
  return cases;
}

std::vector<DataType> all_types() {
  std::vector<DataType> types;
  for (int type = 0; type < kDataTypes; ++type) types.push_back(static_cast<DataType>(type));
  return types;
}

class Collectives : public ::testing::TestWithParam<int> {};

TEST_P(Collectives, OfEveryTypeAndOperatorAreRightAtSmallSizes) {
  const auto cases = cases_of(GetParam(), {0, 1, 5, 129}, all_types());
  run_ranks(make_test_runtime(), GetParam(), [&](Communicator& communicator) {
    for (const Case& test : cases) {
      run_case(communicator, test);
      if (::testing::Test::HasFatalFailure()) return communicator.abort({});
    }
  });
}

TEST_P(Collectives, AreRightBeyondOneSliceOfStaging) {
  const auto cases =
      cases_of(GetParam(), {70001}, {DataType::kFloat32, DataType::kBfloat16, DataType::kUint8});
  run_ranks(make_test_runtime({{"STAGING_BYTES", "64K"}}), GetParam(),
            [&](Communicator& communicator) {
              for (const Case& test : cases) {
                run_case(communicator, test);
                if (::testing::Test::HasFatalFailure()) return communicator.abort({});
              }
            });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, ::testing::Values(1, 2, 3, 4, 5, 7, 8));

class EveryAlgorithm : public ::testing::TestWithParam<std::string> {};

/// The sanitizers are many times slower.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

TEST_P(EveryAlgorithm, GivesTheSameResultAsTheReference) {
  const std::size_t large = kSanitized ? 9001 : 20011;
  for (const int ranks : {2, 3, 4, 5}) {
    auto cases = cases_of(ranks, {1, 129, large}, {DataType::kFloat32, DataType::kInt32});
    for (std::size_t i = 0; i < cases.size(); ++i)  // some in place, others not
      if (i % 2 == 1) cases[i].in_place_ranks = 0b0101;
    if (GetParam() == "two_shot_bf16")  // sums of small integers survive bfloat16
      std::erase_if(cases, [](const Case& test) {
        return test.op == ReduceOp::kAvg || test.request.collective != Collective::kAllReduce;
      });
    run_ranks(make_test_runtime({{"ALGO", GetParam()}}), ranks, [&](Communicator& communicator) {
      for (const Case& test : cases) {
        run_case(communicator, test);
        if (::testing::Test::HasFatalFailure()) return communicator.abort({});
      }
    });
  }
}

std::vector<std::string> algorithm_names() {
  std::vector<std::string> names;
  for (const ir::Algorithm& algorithm : algorithms::all()) names.emplace_back(algorithm.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Named, EveryAlgorithm, ::testing::ValuesIn(algorithm_names()),
                         [](const auto& info) { return info.param; });

TEST(Collectives, ThatOnlyMoveDataAreStagedWhereInputsMayNotBeRead) {
  const auto runtime = make_test_runtime({{"DIRECT_READS", "0"}});
  const auto cases = cases_of(3, {9001}, {DataType::kFloat32});
  run_ranks(runtime, 3, [&](Communicator& communicator) {
    for (const Case& test : cases) run_case(communicator, test);
  });
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

TEST(Collectives, MismatchedCallsEndInAnErrorThatShowsBothSides) {
  std::mutex mutex;
  std::vector<std::string> messages;
  run_ranks(make_test_runtime(), 2, [&](Communicator& communicator) {
    std::vector<float> data(64);
    Call call;
    call.send = call.recv = data.data();
    call.count = communicator.rank() == 0 ? 32 : 64;
    const Status status = communicator.run(call);
    ASSERT_FALSE(status);
    const std::scoped_lock lock(mutex);
    messages.push_back(status.error().what);
  });
  ASSERT_EQ(messages.size(), 2u);
  for (const std::string& message : messages) {
    EXPECT_NE(message.find("count=32"), std::string::npos) << message;
    EXPECT_NE(message.find("count=64"), std::string::npos) << message;
  }
}

bool says_once(const std::string& message, const std::string& part) {
  const std::size_t at = message.find(part);
  return at != std::string::npos && at == message.rfind(part);
}

TEST(Collectives, MismatchedCallsThatKnowTheirPlacesShowThemAndAllArguments) {
  run_ranks(make_test_runtime(), 2, [](Communicator& communicator) {
    static float data[2][64];  // of both, for both to know the addresses
    Call calls[2];
    for (const Rank rank : {0, 1}) {
      calls[rank].send = calls[rank].recv = data[rank];
      calls[rank].count = rank == 0 ? 32 : 64;
      calls[rank].site = {rank == 0 ? "ncclHere" : "ncclThere", __builtin_return_address(0)};
    }
    const Status status = communicator.run(calls[communicator.rank()]);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kInvalidUsage);
    for (const Call& call : calls)
      EXPECT_TRUE(says_once(status.error().what, "calls " + describe(call))) << status.error().what;
  });
}

TEST(Collectives, AReceiveThatDoesNotFitTheSendShowsThePlacesAndArgumentsOfBoth) {
  run_ranks(make_test_runtime(), 2, [](Communicator& communicator) {
    static float sent[200'000], received[64];  // more than is sent before it is received
    Call send, recv;
    send.collective = Collective::kSend;
    send.send = sent;
    send.count = 200'000;
    send.root = 1;
    send.site = {"ncclSend", __builtin_return_address(0)};
    recv.collective = Collective::kRecv;
    recv.recv = received;
    recv.count = 64;
    recv.root = 0;
    recv.site = {"ncclRecv", __builtin_return_address(0)};
    const Status status = communicator.run(communicator.rank() == 0 ? send : recv);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kInvalidUsage);
    for (const Call& call : {send, recv})
      EXPECT_TRUE(says_once(status.error().what, describe(call))) << status.error().what;
  });
}

TEST(Collectives, SendsAndReceivesOfAGroupPairInOrder) {
  run_ranks(make_test_runtime(), 3, [](Communicator& communicator) {
    const Rank rank = communicator.rank();
    const Rank next = (rank + 1) % 3, previous = (rank + 2) % 3;
    std::vector<std::int32_t> first(100000, rank), second(7, rank + 100);
    std::vector<std::int32_t> got_first(100000), got_second(7), self_in(3, 9), self_out(3);
    Call call;
    call.type = DataType::kInt32;
    const auto make = [&](Collective collective, std::vector<std::int32_t>& data, Rank peer) {
      call.collective = collective;
      call.send = call.recv = data.data();
      call.count = data.size();
      call.root = peer;
      return call;
    };
    const Call calls[] = {
        make(Collective::kSend, first, next),         make(Collective::kSend, second, next),
        make(Collective::kRecv, got_first, previous), make(Collective::kRecv, got_second, previous),
        make(Collective::kSend, self_in, rank),       make(Collective::kRecv, self_out, rank)};
    ASSERT_TRUE(communicator.start(calls));
    Communicator* const self = &communicator;
    const Status status = run_group({&self, 1});
    ASSERT_TRUE(status) << status.error().what;
    EXPECT_EQ(got_first, std::vector<std::int32_t>(100000, previous));
    EXPECT_EQ(got_second, std::vector<std::int32_t>(7, previous + 100));
    EXPECT_EQ(self_out, self_in);
  });
}

/// A send or receive of `data`.
Call message(Collective collective, std::vector<std::int32_t>& data, Rank peer) {
  Call call;
  call.collective = collective;
  call.send = call.recv = data.data();
  call.count = data.size();
  call.type = DataType::kInt32;
  call.root = peer;
  return call;
}

// Time that grew with the square of their number would be minutes here.
TEST(Collectives, AGroupMayHoldThousandsOfMessages) {
  constexpr std::size_t kMessages = 10000;
  run_ranks(make_test_runtime(), 2, [](Communicator& communicator) {
    const Rank peer = 1 - communicator.rank();
    std::vector<std::vector<std::int32_t>> out(kMessages), in(kMessages);
    std::vector<Call> calls;
    for (std::size_t i = 0; i < kMessages; ++i) {
      out[i].assign(i % 3, static_cast<std::int32_t>(i) * (1 + communicator.rank()));
      in[i].assign(i % 3, -1);
      calls.push_back(message(Collective::kSend, out[i], peer));
    }
    for (auto& data : in) calls.push_back(message(Collective::kRecv, data, peer));
    ASSERT_TRUE(communicator.start(calls));
    Communicator* const self = &communicator;
    const Status status = run_group({&self, 1});
    ASSERT_TRUE(status) << status.error().what;
    for (std::size_t i = 0; i < kMessages; ++i)
      ASSERT_EQ(in[i], std::vector<std::int32_t>(i % 3, static_cast<std::int32_t>(i) * (1 + peer)));
  });
}

TEST(Collectives, MessagesToOneselfThatDoNotPairAreRefusedAndNothingElseEnds) {
  run_ranks(make_test_runtime(), 2, [](Communicator& communicator) {
    const Rank rank = communicator.rank();
    std::vector<std::int32_t> one(3, rank), other(3), longer(4);
    const auto refusal = [&](std::vector<Call> calls) {
      const Status status = communicator.start(calls);
      EXPECT_FALSE(status);
      if (status) return std::string();
      EXPECT_EQ(status.error().code, Code::kInvalidUsage);
      return status.error().what;
    };
    const Call send = message(Collective::kSend, one, rank);
    const Call recv = message(Collective::kRecv, other, rank);
    EXPECT_NE(refusal({send}).find("1 sends to itself and 0 receives"), std::string::npos);
    EXPECT_NE(refusal({recv, send, recv}).find("1 sends to itself and 2 receives"),
              std::string::npos);
    const std::string both = refusal({send, message(Collective::kRecv, longer, rank)});
    EXPECT_NE(both.find("count=3"), std::string::npos) << both;
    EXPECT_NE(both.find("count=4"), std::string::npos) << both;
    const Status alone = communicator.run(send);
    ASSERT_FALSE(alone);
    EXPECT_EQ(alone.error().code, Code::kInvalidUsage);

    ASSERT_TRUE(communicator.health());
    const Call good[] = {recv, send};
    ASSERT_TRUE(communicator.start(good));
    Communicator* const self = &communicator;
    ASSERT_TRUE(run_group({&self, 1}));
    EXPECT_EQ(other, one);
    float value = 1;
    Call sum;
    sum.send = sum.recv = &value;
    sum.count = 1;
    ASSERT_TRUE(communicator.run(sum));
    EXPECT_EQ(value, 2.0f);
  });
}

/// Processor time of the calling thread.
Nanos processor_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + Nanos(time.tv_nsec);
}

/// Runs `waiting`, which needs `late`, while another thread lets some time pass before it runs
/// `late`. The thread that waits must not burn that time.
void expect_sleep(const std::function<void()>& waiting, const std::function<void()>& late) {
  const auto delay = std::chrono::milliseconds(kSanitized ? 3000 : 300);
  std::thread others([&] {
    std::this_thread::sleep_for(delay);
    late();
  });
  const Nanos before = processor_time();
  const TimePoint begin = Clock::now();
  waiting();
  const Nanos used = processor_time() - before;
  EXPECT_GE(Clock::now() - begin, delay / 2);  // it did wait
  EXPECT_LT(used, delay / 4);
  others.join();
}

TEST(Waiting, AThreadThatDrivesSeveralRanksSleepsWhileAllWaitForAnother) {
  auto ranks = testing::all_ranks(3);
  std::vector<float> values(3, 1);
  const auto sum_of = [&](Rank rank) {
    Call call;
    call.send = call.recv = &values[rank];
    call.count = 1;
    return call;
  };
  expect_sleep(
      [&] {
        for (const Rank rank : {0, 1}) {
          const Call call = sum_of(rank);
          ASSERT_TRUE(ranks[rank]->start({&call, 1}));
        }
        Communicator* const group[] = {ranks[0].get(), ranks[1].get()};
        ASSERT_TRUE(run_group(group));
      },
      [&] { ASSERT_TRUE(ranks[2]->run(sum_of(2))); });
  EXPECT_EQ(values, std::vector<float>(3, 3));
}

TEST(Waiting, ARankSleepsWhileItsMessagesWaitForSeveralPeers) {
  auto ranks = testing::all_ranks(3);
  std::vector<std::int32_t> out(1 << 20, 5), in(7), got_out(1 << 20), got_in(7, 9);
  const auto run = [&](Rank rank, std::vector<Call> calls) {
    ASSERT_TRUE(ranks[rank]->start(calls));
    Communicator* const self = ranks[rank].get();
    ASSERT_TRUE(run_group({&self, 1}));
  };
  expect_sleep(
      [&] { run(0, {message(Collective::kSend, out, 1), message(Collective::kRecv, in, 2)}); },
      [&] {
        run(1, {message(Collective::kRecv, got_out, 0)});
        run(2, {message(Collective::kSend, got_in, 0)});
      });
  EXPECT_EQ(got_out, out);
  EXPECT_EQ(in, got_in);
}

TEST(Collectives, OneThreadDrivesEightRanks) {
  constexpr int kRanks = 8;
  auto communicators = testing::all_ranks(kRanks);
  for (const std::size_t count : {1u, 1000u, 300000u}) {
    std::vector<std::vector<float>> data(kRanks);
    std::vector<Communicator*> all;
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

TEST(Collectives, AGroupThatFailsEndsAllItsCommunicators) {
  auto pair = testing::all_ranks(2), others = testing::all_ranks(2);
  std::vector<float> data(2);
  Call call;
  call.send = call.recv = data.data();
  call.count = 1;
  ASSERT_TRUE(pair[0]->start({&call, 1}));
  ASSERT_TRUE(others[0]->start({&call, 1}));  // their rank 1 never calls
  pair[1]->abort({Code::kAborted, "enough of this"});
  Communicator* const group[] = {others[0].get(), pair[0].get()};
  const Status status = run_group(group);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().what.find("enough of this"), std::string::npos) << status.error().what;
  // Nothing of the call is left that could touch its buffers, and every later call says why.
  for (int again = 0; again < 2; ++again) {
    const auto left = others[0]->poll();
    ASSERT_FALSE(left);
    EXPECT_NE(left.error().what.find("another communicator"), std::string::npos);
  }
  EXPECT_FALSE(others[0]->health());
}

TEST(Collectives, WithoutReductionIgnoreTheOperator) {
  auto ranks = testing::all_ranks(2);
  std::vector<float> data[2] = {{3, 4}, {0, 0}};
  std::vector<Communicator*> all;
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

TEST(Collectives, AbortEndsTheOthersWithTheReasonAsTheDoingOfAPeer) {
  run_ranks(make_test_runtime(), 3, [](Communicator& communicator) {
    const bool aborts = communicator.rank() == 2;
    if (aborts) communicator.abort({Code::kAborted, "enough of this"});
    float value = 0;
    Call call;
    call.send = call.recv = &value;
    call.count = 1;
    const Status status = communicator.run(call);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, aborts ? Code::kAborted : Code::kPeerFailed);
    EXPECT_NE(status.error().what.find("enough of this"), std::string::npos) << status.error().what;
    EXPECT_EQ(status.error().peer, aborts ? kNoRank : 2);
    EXPECT_EQ(status.error().what.find("rank 2 gave up") == std::string::npos, aborts)
        << status.error().what;
    EXPECT_FALSE(communicator.run(call));
  });
}

Call call_of(Collective collective, std::vector<float>& data, Rank root = 0) {
  Call call;
  call.collective = collective;
  call.send = call.recv = data.data();
  call.count = data.size();
  call.root = root;
  return call;
}

TEST(Collectives, ARootThatWaitsForNobodyLearnsOfAMismatchInItsNextCall) {
  auto ranks = testing::all_ranks(2);
  std::vector<float> root(4), reader(8);
  EXPECT_TRUE(ranks[0]->run(call_of(Collective::kBroadcast, root)));
  for (const Status& status : {ranks[1]->run(call_of(Collective::kBroadcast, reader)),
                               ranks[0]->run(call_of(Collective::kBroadcast, root))}) {
    ASSERT_FALSE(status);
    EXPECT_NE(status.error().what.find("count=4"), std::string::npos) << status.error().what;
    EXPECT_NE(status.error().what.find("count=8"), std::string::npos) << status.error().what;
  }
}

// A call like the last one skips what the last one found out; what may have changed is looked at.
TEST(Collectives, ARepeatedCallSeesNewDataNewFactorsAndWhatCameBetween) {
  testing::run_ranks(testing::make_test_runtime(), 2, [](Communicator& communicator) {
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

/// One rank of several that make the same broadcasts, each at its own pace.
class Drifter {
 public:
  struct Broadcast {
    Rank root;
    std::size_t count;
  };
  Drifter(Communicator& communicator, const std::vector<Broadcast>& calls)
      : communicator_(communicator), calls_(calls) {}

  [[nodiscard]] bool done() const { return next_ == calls_.size(); }

  /// Starts the next call or moves the started one on.
  void step() {
    const Broadcast& call = calls_[next_];
    const float sent = static_cast<float>(next_ + 1);
    if (!started_) {
      data_.assign(call.count, call.root == communicator_.rank() ? sent : 0);
      const Call calls[] = {call_of(Collective::kBroadcast, data_, call.root)};
      ASSERT_TRUE(communicator_.start(calls));
      started_ = true;
    }
    const auto state = communicator_.poll();
    ASSERT_TRUE(state) << state.error().what;
    if (*state == Communicator::Progress::kPending) return;
    ASSERT_EQ(std::ranges::count(data_, sent), static_cast<std::ptrdiff_t>(call.count))
        << "rank " << communicator_.rank() << ", call " << next_ << ", root " << call.root
        << ": got " << data_.front() << " .. " << data_.back();
    started_ = false;
    ++next_;
  }

 private:
  Communicator& communicator_;
  const std::vector<Broadcast>& calls_;
  std::vector<float> data_;
  std::size_t next_ = 0;
  bool started_ = false;
};

TEST(Collectives, ALateRankGetsWhatWasSentHoweverFarTheOthersAre) {
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const auto below = [&random](std::size_t limit) { return random() % limit; };
    const std::size_t sizes[] = {1, 40, 300, 2000, 8192};  // inline, in notes, in packets
    std::vector<Drifter::Broadcast> calls;
    while (calls.size() < 200) {  // runs of one root and size, so that ranks can drift apart
      const Drifter::Broadcast call{static_cast<Rank>(below(2)), sizes[below(std::size(sizes))]};
      calls.insert(calls.end(), 1 + below(12), call);
    }
    auto ranks = testing::all_ranks(3);
    std::vector<Drifter> drifters;
    for (const auto& rank : ranks) drifters.emplace_back(*rank, calls);
    const auto all_done = [&] { return std::ranges::all_of(drifters, &Drifter::done); };
    while (!all_done() && !HasFatalFailure()) {
      Drifter& one = drifters[below(4) == 0 ? 2 : below(2)];  // rank 2 sends nothing and is late
      for (std::size_t steps = below(40); steps > 0 && !one.done() && !HasFatalFailure(); --steps)
        one.step();
    }
  }
}

/// All ranks as one thread's; a wait for a rank that will never come ends with an error of time.
std::vector<std::unique_ptr<Communicator>> impatient_ranks(int n) {
  return testing::all_ranks(n, {{"TIMEOUT", "10"}});
}

void expect_blames_leaver(const Status& status, Rank leaver) {
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kPeerFailed) << status.error().what;
  EXPECT_EQ(status.error().peer, leaver) << status.error().what;
  EXPECT_NE(status.error().what.find("has left"), std::string::npos) << status.error().what;
}

TEST(Leaving, FailsTheCollectivesOfWhoStays) {
  for (const std::size_t count : {1u, 300000u}) {
    auto ranks = impatient_ranks(2);
    ranks[1].reset();
    std::vector<float> data(count);
    expect_blames_leaver(ranks[0]->run(call_of(Collective::kAllReduce, data)), 1);
  }
}

TEST(Leaving, FailsReceivesAlsoBesideOthersThatMayStillCome) {
  auto ranks = impatient_ranks(3);
  ranks[1].reset();
  std::vector<float> data(10), more(10);
  const Call calls[] = {call_of(Collective::kRecv, data, 1), call_of(Collective::kRecv, more, 2)};
  ASSERT_TRUE(ranks[0]->start(calls));
  Communicator* const self = ranks[0].get();
  expect_blames_leaver(run_group({&self, 1}), 1);
}

TEST(Leaving, FailsSendsThatNoSlotTakes) {
  auto ranks = impatient_ranks(2);
  ranks[1].reset();
  std::vector<float> data(1 << 20);
  expect_blames_leaver(ranks[0]->run(call_of(Collective::kSend, data, 1)), 1);
}

TEST(Leaving, TakesNothingBackOfWhatWasDoneBefore) {
  auto ranks = impatient_ranks(2);
  std::vector<float> sent(1000, 3), got(1000), root(7, 5), copy(7);
  ASSERT_TRUE(ranks[1]->run(call_of(Collective::kSend, sent, 0)));
  ASSERT_TRUE(ranks[1]->run(call_of(Collective::kBroadcast, root, 1)));
  ranks[1].reset();
  const Status received = ranks[0]->run(call_of(Collective::kRecv, got, 1));
  ASSERT_TRUE(received) << received.error().what;
  const Status broadcast = ranks[0]->run(call_of(Collective::kBroadcast, copy, 1));
  ASSERT_TRUE(broadcast) << broadcast.error().what;
  EXPECT_EQ(got, sent);
  EXPECT_EQ(copy, root);
}

}  // namespace
}  // namespace tutti
