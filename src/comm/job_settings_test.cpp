#include "src/comm/job_settings.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/comm/setup_version.hpp"

namespace tutti {
namespace {

MeasuredRange sample_range() {
  return {Collective::kAllGather, {4, 2, 3, 0x1234}, 100, 2000, {"direct", true}, 1000, 77, 88,
          1'800'000'001};
}

JobSettings sample_settings() {
  JobSettings settings;
  settings.agreement = {"ring", 1 << 20, true, false, "all_reduce:int8", true, "sum"};
  settings.verdicts.add({Collective::kAllToAll,
                         {4, 2, 3, 0, 2, 100},
                         33,
                         64,
                         {"direct", true},
                         64,
                         5,
                         6,
                         1'800'000'000});
  settings.table.add(sample_range());
  settings.calibration = Calibration{.between_gbs = 12.25};
  return settings;
}

std::string error_of_settings(const Blob& bytes) {
  const auto settings = decode_job_settings(bytes, 5);
  if (settings) return "";
  EXPECT_EQ(settings.error().peer, 5);
  return settings.error().what;
}

TEST(JobSettings, ComeBackAsTheyWereSent) {
  const auto settings = decode_job_settings(encode(sample_settings()), 5);
  ASSERT_TRUE(settings) << settings.error().what;
  EXPECT_EQ(settings->agreement, sample_settings().agreement);
  EXPECT_EQ(settings->verdicts, sample_settings().verdicts);
  EXPECT_EQ(settings->table, sample_settings().table);
  EXPECT_EQ(settings->calibration, sample_settings().calibration);
  EXPECT_EQ(encode(*settings), encode(sample_settings()));
}

TEST(JobSettings, CutAnywhereAreRefused) {
  const Blob whole = encode(sample_settings());
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_NE(
        error_of_settings(Blob(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes))),
        "")
        << bytes;
}

TEST(JobSettings, WithBytesLeftOverAreRefused) {
  Blob bytes = encode(sample_settings());
  bytes.push_back({});
  EXPECT_NE(error_of_settings(bytes).find("malformed"), std::string::npos);
}

TEST(JobSettings, OfAnotherVersionNamesBothVersions) {
  Blob bytes = encode(sample_settings());
  bytes[0] = static_cast<std::byte>(kSetupVersion + 1);
  const std::string versions =
      fmt::format("set-up version {}, here {}", kSetupVersion + 1, kSetupVersion);
  EXPECT_NE(error_of_settings(bytes).find(versions), std::string::npos);
}

/// What is said of `range`, as a verdict and in the table: the same.
std::string error_of_range(const MeasuredRange& range) {
  JobSettings verdict, table;
  verdict.agreement = table.agreement = sample_settings().agreement;
  verdict.verdicts.add(range);
  table.table.add(range);
  const std::string error = error_of_settings(encode(table));
  EXPECT_EQ(error_of_settings(encode(verdict)), error);
  return error;
}

TEST(JobSettings, WithARangeThatCannotBeAreRefused) {
  EXPECT_EQ(error_of_range(sample_range()), "");
  MeasuredRange range = sample_range();
  range.arrangement.hosts = 5;
  EXPECT_NE(error_of_range(range).find("4 ranks on 5 hosts"), std::string::npos);
  range = sample_range();
  range.arrangement.machines = 3;
  EXPECT_NE(error_of_range(range).find("2 hosts on 3 machines"), std::string::npos);
  range = sample_range();
  range.collective = static_cast<Collective>(kCollectives);
  EXPECT_NE(error_of_range(range).find("collective 10"), std::string::npos);
}

TEST(JobSettings, WithRangesThatSplitOthersAreRefused) {
  JobSettings settings = sample_settings();
  MeasuredRange second = sample_range();
  second.from_bytes = 3000;
  second.to_bytes = 4000;
  second.measured_s += 1;
  settings.table.add(second);
  Blob bytes = encode(settings);
  const std::uint64_t end = sample_range().to_bytes, further = 9000;
  const auto at = std::ranges::search(bytes, std::as_bytes(std::span(&end, 1))).begin();
  ASSERT_NE(at, bytes.end());
  std::memcpy(&*at, &further, sizeof further);
  EXPECT_NE(error_of_settings(bytes).find("overlap"), std::string::npos);
}

TEST(JobSettings, WithMoreRangesThanAreSentAreRefused) {
  for (MeasuredTable JobSettings::* table : {&JobSettings::verdicts, &JobSettings::table}) {
    JobSettings settings = sample_settings();
    MeasuredRange range = sample_range();
    while ((settings.*table).ranges().size() <= kMostSentRanges) {
      range.from_bytes = range.to_bytes = range.to_bytes + 2;
      (settings.*table).add(range);
    }
    EXPECT_NE(error_of_settings(encode(settings)).find("1025 measured ranges"), std::string::npos);
  }
}

TEST(JobSettings, WithACalibrationThatCannotBeAreRefused) {
  JobSettings settings = sample_settings();
  settings.calibration->between_gbs = -1;
  EXPECT_NE(error_of_settings(encode(settings)).find("between.bandwidth_gbs"), std::string::npos);
  settings.calibration.reset();
  EXPECT_EQ(decode_job_settings(encode(settings), 5)->calibration, std::nullopt);
}

TEST(JobSettings, WithStagingThatNoSettingAllowsAreRefused) {
  // Twice 2^63 is 0: a region of no bytes that plans would take for an endless one.
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 63}) {
    JobSettings settings = sample_settings();
    settings.agreement.staging_bytes = bytes;
    EXPECT_NE(error_of_settings(encode(settings)).find("STAGING_BYTES"), std::string::npos)
        << bytes;
  }
}

}  // namespace
}  // namespace tutti
