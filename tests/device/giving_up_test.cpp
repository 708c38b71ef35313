// Waits that cannot end: an abort word and a deadline end them, and the rank is named.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/device/calls.hpp"

namespace tutti::device::testing {
namespace {

using ::testing::HasSubstr;

class GivingUp : public ::testing::TestWithParam<lower::ProgramProtocol> {
 protected:
  /// A two-shot or one-shot all-reduce of 3 ranks.
  static std::string run(const JobOptions& options) {
    constexpr Rank kRanks = 3;
    const bool published = GetParam() == lower::ProgramProtocol::kPublished;
    const auto lowerings =
        lowerings_of(published ? "one_shot" : "two_shot", Collective::kAllReduce, kRanks);
    std::mt19937_64 random(1);
    for (const Lowering& lowering : lowerings) {
      if (lowering.lowered.protocol != GetParam() || lowering.scales_input) continue;
      Call call;
      call.lowered = &lowering.lowered;
      call.volume = {100, DataType::kFloat32};
      call.factor_bits.resize(kRanks);
      const AreaShape area = area_for(lowerings);
      return run_calls({kRanks, 2, 2}, area, plan_all({call}, 2, area, random), options);
    }
    return "no such lowering";
  }
};

TEST_P(GivingUp, HappensAfterTheDeadlineAndNamesWhoDidNotCome) {
  JobOptions options;
  options.absent = 1;
  options.timeout_ns = 20'000'000;
  EXPECT_THAT(run(options), HasSubstr("timed out waiting for rank 1"));
}

TEST_P(GivingUp, HappensWhenTheCallIsAborted) {
  JobOptions options;
  options.absent = 2;
  options.aborted = true;
  EXPECT_THAT(run(options), HasSubstr("aborted waiting for rank"));
}

INSTANTIATE_TEST_SUITE_P(Protocols, GivingUp,
                         ::testing::Values(lower::ProgramProtocol::kStaged,
                                           lower::ProgramProtocol::kPublished,
                                           lower::ProgramProtocol::kDirect),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace tutti::device::testing
