// `tutti calibrate`, run as its users run it.
#include <cstdio>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "src/cost/calibration.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/started.hpp"

namespace tutti::tools {
namespace {

using testing::HasSubstr;

constexpr std::string_view kProgram = TUTTI_CALIBRATE_PROGRAM;

TEST(Calibrate, WritesWhatItMeasuredInsideAHost) {
  const std::string path =
      std::filesystem::temp_directory_path() / fmt::format("calibrate-{}.json", ::getpid());
  const Outcome outcome = run_shell(fmt::format("{} -n 2 --seconds 0.02 -o {}", kProgram, path));
  EXPECT_EQ(outcome.code, kExitFine) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("copy_ps_per_byte"));
  const auto text = read_file(path, kMostCalibrationBytes);
  ASSERT_TRUE(text) << text.error().what;
  const auto calibration = parse_calibration(*text);
  ASSERT_TRUE(calibration) << calibration.error().what;
  EXPECT_THAT(calibration->measured_on, HasSubstr("2 ranks on 1 host"));
  EXPECT_GT(calibration->copy_ps_per_byte, 0);
  EXPECT_GT(calibration->reduce_ps_per_byte, 0);
  EXPECT_GT(calibration->inside.send_us, 0);
  EXPECT_GE(calibration->inside.latency_us, 0);
  EXPECT_EQ(calibration->between, Calibration{}.between) << "there is no other host";
  std::remove(path.c_str());
}

TEST(Calibrate, SaysWhatIsWrongWithItsArguments) {
  const Outcome lone = run_shell(fmt::format("{} -n 1", kProgram));
  EXPECT_EQ(lone.code, kExitUsage) << lone.output;
  const Outcome nowhere = run_shell(fmt::format("{} -n 2 -o /nowhere/at/all", kProgram));
  EXPECT_NE(nowhere.code, kExitFine);
  EXPECT_THAT(nowhere.output, HasSubstr("/nowhere/at/all"));
}

}  // namespace
}  // namespace tutti::tools
