#include "tests/collectives/cases.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/base/float_formats.hpp"
#include "tests/collectives/ranks.hpp"

namespace tutti::testing {

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

namespace {

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

/// Zeroed memory of a heap, or ordinary memory.
class Buffer {
 public:
  Buffer(SharedHeap* heap, std::size_t bytes)
      : heap_(heap), ordinary_(heap == nullptr ? bytes : 0) {
    if (heap_ == nullptr) return;
    const auto memory = heap_->allocate(bytes);
    if (memory)
      shared_ = memory->data();
    else
      ADD_FAILURE() << memory.error().what;
  }
  ~Buffer() {
    if (shared_ != nullptr) {
      EXPECT_TRUE(heap_->free(shared_));
    }
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::byte* data() { return heap_ == nullptr ? ordinary_.data() : shared_; }

 private:
  SharedHeap* heap_;
  std::vector<std::byte> ordinary_;
  std::byte* shared_ = nullptr;
};

/// One call on one rank, checked.
void run_case(Communicator& communicator, const Case& test, SharedHeap* heap) {
  const Rank rank = communicator.rank();
  const ir::BlockCounts blocks = ir::block_counts(test.request, rank);
  const std::size_t element = size_of(test.type);
  const std::size_t ins = blocks.input * test.count, outs = blocks.output * test.count;
  // One element off alignment, and a guard behind.
  Buffer input(heap, (ins + 1) * element + 64), output(heap, (outs + 1) * element + 64);
  ASSERT_TRUE(input.data() != nullptr && output.data() != nullptr);
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
    if (std::memcmp(wanted, out + i * element, element) != 0) FAIL() << what << " element " << i;
  }
  for (std::size_t i = 0; guarded && i < 8; ++i)
    ASSERT_EQ(out[outs * element + i], std::byte{0x5a}) << what << " wrote beyond the end";
}

}  // namespace

std::vector<Case> cases_of(std::int32_t ranks, const std::vector<std::size_t>& counts,
                           const std::vector<DataType>& types) {
  const bool all = ranks <= 3 && !kSanitized;
  std::size_t turn = 0;
  // Moves on by one more after all operators, or each would always meet the same count.
  const auto is_taken = [&](std::size_t which, std::size_t choices) {
    return all || which == (turn + turn / kReduceOps) % choices;
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
                  (!rooted(collective) || all ||
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

std::vector<Case> cases_for(std::int32_t ranks, const std::vector<std::size_t>& counts) {
  auto cases = cases_of(ranks, counts, {DataType::kFloat32, DataType::kInt32});
  for (std::size_t i = 1; i < cases.size(); i += 2) cases[i].in_place_ranks = 0b0101;
  return cases;
}

void run_cases(Communicator& communicator, const std::vector<Case>& cases, SharedHeap* heap) {
  for (const Case& test : cases) {
    run_case(communicator, test, heap);
    if (::testing::Test::HasFatalFailure()) return communicator.abort({});
  }
}

}  // namespace tutti::testing
