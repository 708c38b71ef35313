// Every collective x type x operator x number of ranks x size x in place or not, against a plain
// reference. Inputs are small integers, so every sum and product is exact in every type.
#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"
#include "src/base/float_formats.hpp"
#include "src/ir/request.hpp"
#include "tests/collectives/ranks.hpp"

namespace tutti {
namespace {

using testing::all_ranks;
using testing::call_of;
using testing::kSanitized;
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

TEST(Collectives, OneThreadDrivesEightRanks) {
  constexpr int kRanks = 8;
  auto communicators = all_ranks(kRanks);
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

TEST(Collectives, WithoutReductionIgnoreTheOperator) {
  auto ranks = all_ranks(2);
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
