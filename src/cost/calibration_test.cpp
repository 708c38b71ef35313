#include "src/cost/calibration.hpp"

#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

using testing::HasSubstr;

std::string error_of(std::string_view text) {
  const auto calibration = parse_calibration(text);
  return calibration ? "" : calibration.error().what;
}

/// The text of the default, with `from` replaced.
std::string with(std::string_view from, std::string_view to) {
  std::string text = calibration_json({});
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(CalibrationFile, IsReadAsItWasWritten) {
  Calibration calibration;
  calibration.measured_on = "two \"fast\" hosts,\n\xc3\xa9";
  calibration.call_us = 1.0 / 3;
  calibration.step_us = 0.1;
  calibration.copy_ps_per_byte = 1e-7;
  calibration.reduce_ps_per_byte = 12345.678;
  calibration.cpus_per_host = 96;
  calibration.inside = {0.25, 0, 7};
  calibration.between = {1, 2, 3};
  calibration.between_gbs = 0.0117;
  const auto again = parse_calibration(calibration_json(calibration));
  ASSERT_TRUE(again) << again.error().what;
  EXPECT_EQ(*again, calibration);
}

TEST(CalibrationFile, HasNoMinusBeforeAZero) {
  Calibration calibration;
  calibration.step_us = -0.0;
  const auto read = parse_calibration(calibration_json(calibration));
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_FALSE(std::signbit(read->step_us)) << "the next text would be another one";
}

TEST(CalibrationFile, NamesLineAndColumnOfWhatIsNoJson) {
  EXPECT_THAT(error_of("{\"format\": \"tutti-calibration\",\n ]"), HasSubstr("line 2 column 2"));
  EXPECT_THAT(error_of(""), HasSubstr("line 1 column 1"));
}

TEST(CalibrationFile, NamesTheEntryThatIsWrong) {
  EXPECT_THAT(error_of(with("\"receive_us\": 8", "\"receive_us\": -8")),
              HasSubstr("between.receive_us: must be a number from 0"));
  EXPECT_THAT(error_of(with("\"bandwidth_gbs\": 0.118", "\"bandwidth_gbs\": 0")),
              HasSubstr("between.bandwidth_gbs"));
  EXPECT_THAT(error_of(with("\"call_us\": 0.2", "\"call_us\": \"0.2\"")),
              HasSubstr("call_us: must"));
  EXPECT_THAT(error_of(with("\"cpus_per_host\": 1", "\"cpus_per_host\": 0.5")),
              HasSubstr("cpus_per_host"));
  EXPECT_THAT(error_of(with("tutti-calibration", "tutti-topology")), HasSubstr("format: "));
  EXPECT_THAT(error_of(with("\"version\": 1", "\"version\": 2")), HasSubstr("version: "));
}

TEST(CalibrationFile, AcceptsNoUnknownMissingOrDoubledKeys) {
  EXPECT_THAT(error_of(with("\"step_us\"", "\"step\"")), HasSubstr("step_us"));
  EXPECT_THAT(error_of(with("\"call_us\": 0.2,", "")), HasSubstr("call_us is missing"));
  EXPECT_THAT(error_of(with("\"call_us\": 0.2,", "\"call_us\": 0.2, \"call_us\": 4,")),
              HasSubstr("\"call_us\" is there twice"));
  EXPECT_THAT(error_of(with("\"inside\": {", "\"inside\": {\"more\": 1, ")), HasSubstr("inside"));
}

TEST(CalibrationFile, AcceptsNoTextThatIsTooLongOrTooDeep) {
  EXPECT_THAT(error_of(std::string(kMostCalibrationBytes + 1, ' ')), HasSubstr("too many"));
  EXPECT_THAT(error_of(with("\"call_us\": 0.2", "\"call_us\": [[[3]]]")), HasSubstr("deeper"));
  EXPECT_THAT(error_of(with("the default", std::string(kLongestMeasuredOn, 'x'))),
              HasSubstr("measured_on"));
}

}  // namespace
}  // namespace tutti
