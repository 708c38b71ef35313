#include "training/safetensors.hpp"

#include <cstdio>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace tutti::training {
namespace {

using testing::HasSubstr;

std::string one(std::string_view type, std::string_view shape, std::string_view offsets) {
  return fmt::format(R"({{"w": {{"dtype": "{}", "shape": {}, "data_offsets": {}}}}})", type, shape,
                     offsets);
}

void expect_wrong(const std::string& json, std::uint64_t bytes, const char* what,
                  Code code = Code::kWrongData) {
  const auto header = parse_safetensors_header(json, bytes);
  ASSERT_FALSE(header) << json;
  EXPECT_EQ(header.error().code, code);
  EXPECT_THAT(header.error().what, HasSubstr(what));
}

class Safetensors : public testing::Test {
 protected:
  ~Safetensors() override { std::remove(file_.c_str()); }
  std::string file_ = testing::TempDir() + fmt::format("safetensors_test.{}", ::getpid());
};

TEST_F(Safetensors, ComeBackAsTheyWereWrittenInTheirOrder) {
  const SafetensorsHeader header{{{"format", "pt"}},
                                 {{"z", {2, 3}, 0, 6}, {"a", {}, 24, 1}, {"none", {0, 4}, 28, 0}}};
  const std::vector<std::vector<float>> values = {{1, 2, 3, 4, 5, 6}, {-0.5F}, {}};
  ASSERT_TRUE(write_safetensors(
      file_, header, [&](std::size_t i) -> Result<std::vector<float>> { return values[i]; }));
  const auto file = SafetensorsFile::open(file_);
  ASSERT_TRUE(file) << file.error().what;
  EXPECT_EQ(file->header(), header);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(*file->read(file->header().tensors[i]), values[i]);
}

TEST_F(Safetensors, BeginTheirNumbersAtAMultipleOfEightBytes) {
  EXPECT_EQ(safetensors_header_json({{}, {{"w", {1}, 0, 1}}}).size() % 8, 0U);
}

TEST_F(Safetensors, ThatWereCutShortAreRefused) {
  std::ofstream(file_, std::ios::binary) << std::string("\x10\0\0\0\0\0\0\0{}", 10);
  const auto file = SafetensorsFile::open(file_);
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().what, HasSubstr("cut short"));
  std::ofstream(file_, std::ios::binary) << "short";
  EXPECT_THAT(SafetensorsFile::open(file_).error().what, HasSubstr("it has 5 bytes"));
}

TEST(SafetensorsHeader, NamesWhatIsWrongWithATensor) {
  expect_wrong("[]", 0, "no object of JSON");
  expect_wrong(R"({"w": 1})", 0, "'w' is no object");
  expect_wrong(R"({"w": {"dtype": "F32"}})", 0, "lacks its dtype, shape or data_offsets");
  expect_wrong(one("BF16", "[1]", "[0, 2]"), 2, "convert it to F32", Code::kUnsupported);
  expect_wrong(one("F32", "[-1]", "[0, 4]"), 4, "a dimension that is none");
  expect_wrong(one("F32", "[4294967296, 4294967296]", "[0, 4]"), 4, "more than");
  expect_wrong(one("F32", "[2]", "[0, 4]"), 4, "do not fill bytes 0 to 4");
  expect_wrong(one("F32", "[1]", "[4, 0]"), 4, "do not fill bytes 4 to 0");
  expect_wrong(one("F32", "[1]", "[4, 8]"), 8, "begins at byte 4");
  expect_wrong(one("F32", "[2]", "[0, 8]"), 4, "cut short");
  expect_wrong(one("F32", "[1]", "[0, 4]"), 8, "4 bytes behind the last tensor");
  expect_wrong(R"({"__metadata__": {"a": 1}})", 0, "'a' of __metadata__ is no text");
}

TEST(SafetensorsHeader, RefusesATensorThatOverlapsAnother) {
  expect_wrong(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                   "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}})",
               12, "'b' begins at byte 4, and the one before it ends at 8");
}

TEST(SafetensorsHeader, RefusesTextThatIsDeeperThanAnyHeader) {
  expect_wrong(std::string(100000, '['), 0, "no object of JSON");
}

}  // namespace
}  // namespace tutti::training
