#include "src/comm/job_settings.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/comm/setup_version.hpp"

namespace tutti {
namespace {

JobSettings sample_settings() {
  JobSettings settings;
  settings.agreement = {"ring", 1 << 20, true, false};
  settings.verdicts = {
      {{Collective::kAllToAll, 4, 18, 2, 3, 2, 100}, {"direct", true}, 1'800'000'000}};
  settings.measured = {{Collective::kAllGather,
                        {4, 2, 3, 0x1234},
                        100,
                        2000,
                        {"direct", true},
                        1000,
                        77,
                        88,
                        1'800'000'001}};
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
  EXPECT_EQ(settings->measured, sample_settings().measured);
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

TEST(JobSettings, WithARangeThatCannotBeAreRefused) {
  JobSettings settings = sample_settings();
  settings.measured[0].arrangement.hosts = 5;
  EXPECT_NE(error_of_settings(encode(settings)).find("4 ranks on 5 hosts"), std::string::npos);
  settings = sample_settings();
  settings.measured.resize(kMostSentRanges + 1, settings.measured[0]);
  EXPECT_NE(error_of_settings(encode(settings)).find("1025 measured ranges"), std::string::npos);
}

TEST(JobSettings, WithACalibrationThatCannotBeAreRefused) {
  JobSettings settings = sample_settings();
  settings.calibration->between_gbs = -1;
  EXPECT_NE(error_of_settings(encode(settings)).find("between.bandwidth_gbs"), std::string::npos);
  settings.calibration.reset();
  EXPECT_EQ(decode_job_settings(encode(settings), 5)->calibration, std::nullopt);
}

TEST(JobSettings, WithMoreVerdictsThanThereAreClassesAreRefused) {
  JobSettings settings = sample_settings();
  settings.verdicts.resize(kMostSentVerdicts + 1);
  EXPECT_NE(error_of_settings(encode(settings)).find("1025 verdicts"), std::string::npos);
}

TEST(JobSettings, WithAVerdictOnWhatIsNoCollectiveAreRefused) {
  JobSettings settings = sample_settings();
  settings.verdicts.front().of.collective = static_cast<Collective>(kCollectives);
  EXPECT_NE(error_of_settings(encode(settings)).find("collective 10"), std::string::npos);
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
