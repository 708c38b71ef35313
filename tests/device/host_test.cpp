// The device interpreter and the host executor come to the same bits: calls of communicators,
// whatever they choose to run, beside device programs of the same collectives.
#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/collectives/ranks.hpp"
#include "tests/device/calls.hpp"

namespace tutti::device::testing {
namespace {

/// What the host executor makes of planned calls.
class HostCalls {
 public:
  HostCalls(const std::vector<Call>& calls, const std::vector<PlannedCall>& planned)
      : calls_(calls), planned_(planned) {}

  /// All of one rank's.
  void run(Communicator& communicator) const {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      RankMemory memory = planned_[i].before[rank];
      tutti::Call call;
      call.collective = calls_[i].lowered->request.collective;
      call.send = memory.bytes.data() + memory.input;
      call.recv = memory.bytes.data() + memory.output;
      call.count = calls_[i].volume.count;
      call.type = calls_[i].volume.type;
      call.op = calls_[i].op;
      std::memcpy(call.scalar, &calls_[i].factor_bits[rank], sizeof call.scalar);
      const Status status = communicator.run(call);
      ASSERT_TRUE(status) << planned_[i].name << ": " << status.error().what;
      const exec::BufferElements elements =
          exec::buffer_elements(calls_[i].lowered->request, calls_[i].volume, communicator.rank());
      const std::size_t bytes = elements.output * size_of(call.type);
      const std::byte* const wanted = planned_[i].after[rank].bytes.data() + memory.output;
      ASSERT_EQ(std::memcmp(call.recv, wanted, bytes), 0) << planned_[i].name;
    }
  }

 private:
  const std::vector<Call>& calls_;
  const std::vector<PlannedCall>& planned_;
};

TEST(HostAndDevice, ComeToTheSameBits) {
  constexpr Rank kRanks = 4;
  std::vector<Lowering> lowerings;
  for (const auto& [algorithm, collective] : {std::pair{"one_shot", Collective::kAllReduce},
                                              std::pair{"two_shot", Collective::kAllReduce},
                                              std::pair{"one_shot", Collective::kReduceScatter},
                                              std::pair{"direct", Collective::kAllGather}})
    for (Lowering& lowering : lowerings_of(algorithm, collective, kRanks))
      lowerings.push_back(std::move(lowering));
  JobOptions options;
  options.seed = new_seed();
  SCOPED_TRACE(fmt::format("seed {}", options.seed));
  std::mt19937_64 random(options.seed);
  std::vector<Call> calls;
  int turn = 0;
  for (const Lowering& lowering : lowerings)
    for (const std::size_t count : {5, 600, 2800})
      for (const DataType type :
           {DataType::kFloat32, DataType::kBfloat16, DataType::kFloat16, DataType::kInt8}) {
        Call call;
        call.lowered = &lowering.lowered;
        call.volume = {count, type};
        constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax};
        call.op = lowering.scales_input ? ReduceOp::kPreMulSum : kOps[turn++ % 3];
        call.factor_bits = factors(type, kRanks, random);
        calls.push_back(call);
      }
  const AreaShape area = area_for(lowerings);
  const auto planned = plan_all(calls, 2, area, random);
  ASSERT_EQ(planned.size(), calls.size());
  ASSERT_EQ(run_calls({kRanks, 2, 1}, area, planned, options), "");
  tutti::testing::run_ranks(
      tutti::testing::make_test_runtime(), kRanks,
      [&](Communicator& communicator) { HostCalls(calls, planned).run(communicator); });
}

}  // namespace
}  // namespace tutti::device::testing
