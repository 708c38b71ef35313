// What may be tried between hosts gives the same results bit for bit, of whatever there is to add.
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "src/cost/tuner.hpp"
#include "src/cost/tuning.hpp"
#include "tests/collectives/cases.hpp"
#include "tests/collectives/ranks.hpp"

namespace tutti {
namespace {

using testing::all_types;
using testing::make_test_runtimes;
using testing::Placement;
using testing::run_ranks;
using testing::Runtimes;

/// Bits of the exponent, and one half more than one in that format; none of integers.
struct Format {
  std::uint64_t exponent = 0, one_and_a_half = 3;
};
Format format_of(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return {0x7c00, 0x3e00};
    case DataType::kFloat32:
      return {0x7f800000, 0x3fc00000};
    case DataType::kFloat64:
      return {0x7ff0000000000000, 0x3ff8000000000000};
    case DataType::kBfloat16:
      return {0x7f80, 0x3fc0};
    case DataType::kFloat8e4m3:
      return {0x78, 0x3c};
    case DataType::kFloat8e5m2:
      return {0x7c, 0x3e};
    default:
      return {};
  }
}

/// Any bits; of floats every other element is a zero of either sign, a denormal, an infinity, a NaN
/// of any payload, or near one, so that sums round.
std::vector<std::byte> any_elements(Rank rank, DataType type, std::size_t bytes) {
  std::mt19937_64 random(static_cast<unsigned>(rank * 100 + static_cast<int>(type)));
  const std::uint64_t exponent = format_of(type).exponent, sign = exponent + (exponent & -exponent),
                      mantissa = (exponent & -exponent) - (exponent != 0);
  std::vector<std::byte> elements(bytes);
  for (std::size_t at = 0; at + size_of(type) <= bytes; at += size_of(type)) {
    std::uint64_t element = random();
    if (exponent != 0) switch (random() % 10) {
        case 0:
          element &= sign;
          break;
        case 1:
          element &= sign | mantissa;
          break;
        case 2:
          element = (element & sign) | exponent;
          break;
        case 3:
          element |= exponent;
          break;
        case 4:
        case 5:
          element = (element & (sign | mantissa)) | (format_of(type).one_and_a_half & exponent);
          break;
        default:
          break;
      }
    std::memcpy(elements.data() + at, &element, size_of(type));
  }
  return elements;
}

/// The names of all that may be tried in place of each other, at any size.
std::set<std::string> rivals_of(const Runtime& runtime, Collective collective, std::int32_t ranks,
                                DataType type, ReduceOp op) {
  const auto tuner = Tuner::create(runtime.algorithms, {});
  lower::Placement hosts;
  for (std::int32_t rank = 0; rank < ranks; ++rank) hosts.host.push_back(rank);
  std::set<std::string> names;
  for (std::size_t bytes = 8; bytes <= 1 << 24; bytes *= 2) {
    Situation situation;
    situation.request = {collective, ranks, 0, false};
    const auto counts = ir::block_counts(situation.request, 0);
    situation.largest_input = bytes;
    situation.block_bytes = bytes / std::max<std::size_t>(1, counts.input);
    situation.type = type;
    situation.op = op;
    const auto choice = tuner->choose(situation, hosts);
    EXPECT_TRUE(choice);
    if (!choice || choice->others.empty()) continue;
    names.emplace(choice->algorithm->name);
    for (const ir::Algorithm* const other : choice->others) names.emplace(other->name);
  }
  return names;
}

using Outputs = std::vector<std::vector<std::byte>>;  ///< by rank

Outputs outputs_of(const Runtimes& runtimes, const std::vector<Call>& calls) {
  Outputs outputs(runtimes.size());
  run_ranks(runtimes, [&](Communicator& communicator) {
    const Rank rank = communicator.rank();
    for (Call call : calls) {
      const BufferBytes bytes = buffer_bytes(call, rank, communicator.size());
      const std::vector<std::byte> input = any_elements(rank, call.type, bytes.send);
      std::vector<std::byte> output(bytes.recv);
      const bool in_place = call.collective == Collective::kAllReduce && call.count % 4 == 1;
      if (in_place) output = input;
      call.send = in_place ? output.data() : input.data();
      call.recv = output.data();
      const std::uint64_t factor = format_of(call.type).one_and_a_half;
      std::memcpy(call.scalar, &factor, sizeof factor);
      const Status status = communicator.run(call);
      ASSERT_TRUE(status) << status.error().what;
      outputs[rank].insert(outputs[rank].end(), output.begin(), output.end());
    }
  });
  return outputs;
}

class Rivals : public ::testing::TestWithParam<int> {};

TEST_P(Rivals, BetweenHostsGiveTheSameBitsOfAnything) {
  const int n = GetParam();
  const Runtimes plain = make_test_runtimes(Placement::kHosts, n);
  std::map<std::string, Runtimes> forced;
  std::size_t compared = 0;
  for (int c = 0; c < 8; ++c)
    for (const DataType type : all_types()) {
      const auto collective = static_cast<Collective>(c);
      std::set<std::string> names;
      std::vector<Call> calls;
      for (int op = 0; op < (reduces(collective) ? kReduceOps : 1); ++op) {
        const auto rivals = rivals_of(*plain[0], collective, n, type, static_cast<ReduceOp>(op));
        if (rivals.empty()) continue;
        names = rivals;  // of every op that has any
        for (const std::size_t count : {1, 37, 4099, kSanitized ? 61 : 70'003}) {
          Call call;
          call.collective = collective;
          call.type = type;
          call.op = static_cast<ReduceOp>(op);
          call.count = count;
          call.root = rooted(collective) ? n - 1 : 0;
          calls.push_back(call);
        }
      }
      std::optional<Outputs> expected;
      for (const std::string& name : names) {
        if (!forced.contains(name))
          forced[name] = make_test_runtimes(Placement::kHosts, n, {{"ALGO", name}});
        const Outputs outputs = outputs_of(forced[name], calls);
        if (!expected) expected = outputs;
        EXPECT_TRUE(outputs == *expected)
            << name << ": " << name_of(collective) << " of " << name_of(type);
        ++compared;
      }
    }
  EXPECT_GT(compared, 12U);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Rivals, ::testing::Values(2, 3, 4));

}  // namespace
}  // namespace tutti
