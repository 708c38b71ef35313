// What each wait of the protocols is for: without it, data goes wrong, and the tests see it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/device/calls.hpp"

// A neglected wait is a race, which the thread sanitizer would rightly report.
#if !defined(__SANITIZE_THREAD__)

namespace tutti::device::testing {
namespace {

struct Neglect {
  const char* name;
  Duty duty;
  const char* algorithm;
  Collective collective;
  lower::ProgramProtocol protocol;
  Rank slow;
  std::size_t count;
};

class Neglecting : public ::testing::TestWithParam<Neglect> {
 protected:
  /// Runs many calls in which one rank is slow. "": nobody noticed anything.
  static std::string run(std::optional<Duty> neglected) {
    const Neglect& neglect = GetParam();
    constexpr Rank kRanks = 3;
    // Enough for a neglect to show; without one, all wait for the slow rank in each of them.
    const std::size_t repeats = kSanitized && !neglected ? 25 : 100;
    JobOptions options;
    options.seed = new_seed();
    options.neglected = neglected;
    options.slow = neglect.slow;
    // A packet that was overwritten is waited for in vain.
    if (neglected) options.timeout_ns = 1'000'000'000;
    SCOPED_TRACE(fmt::format("seed {}", options.seed));
    std::mt19937_64 random(options.seed);
    std::vector<Call> calls;
    const auto lowerings = lowerings_of(neglect.algorithm, neglect.collective, kRanks);
    for (const Lowering& lowering : lowerings) {
      if (lowering.lowered.protocol != neglect.protocol || lowering.scales_input ||
          lowering.lowered.request.in_place)
        continue;
      Call call;
      call.lowered = &lowering.lowered;
      call.volume = {neglect.count, DataType::kFloat32};
      call.factor_bits.resize(kRanks);
      calls.resize(repeats, call);
    }
    const AreaShape area = area_for(lowerings);
    const auto planned = plan_all(calls, 1, area, random);
    EXPECT_EQ(planned.size(), repeats);
    return run_calls({kRanks, 1, 1}, area, planned, options);
  }
};

TEST_P(Neglecting, ADutyIsNoticed) { EXPECT_NE(run(GetParam().duty), ""); }

TEST_P(Neglecting, NothingIsFine) { EXPECT_EQ(run(std::nullopt), ""); }

INSTANTIATE_TEST_SUITE_P(
    Duties, Neglecting,
    ::testing::Values(Neglect{"Packet", Duty::kPacket, "one_shot", Collective::kAllReduce,
                              lower::ProgramProtocol::kPublished, 0, 700},
                      Neglect{"FreePacket", Duty::kFreePacket, "direct", Collective::kBroadcast,
                              lower::ProgramProtocol::kPublished, 2, 700},
                      // In one slice, or the waits for the next one would hide it.
                      Neglect{"FreeSlots", Duty::kFreeSlots, "direct", Collective::kBroadcast,
                              lower::ProgramProtocol::kStaged, 2, 20},
                      Neglect{"Progress", Duty::kProgress, "ring", Collective::kAllReduce,
                              lower::ProgramProtocol::kStaged, 1, 700},
                      Neglect{"Entry", Duty::kEntry, "two_shot", Collective::kAllReduce,
                              lower::ProgramProtocol::kDirect, 1, 700},
                      Neglect{"Users", Duty::kUsers, "two_shot", Collective::kAllReduce,
                              lower::ProgramProtocol::kDirect, 1, 700}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tutti::device::testing

#endif
