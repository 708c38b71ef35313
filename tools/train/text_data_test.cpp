#include "tools/train/text_data.hpp"

#include <cstdio>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace tutti::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string text_of(std::span<const std::uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

class TextDataFile : public testing::Test {
 protected:
  ~TextDataFile() override { std::remove(path_.c_str()); }
  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  std::string path_ = testing::TempDir() + fmt::format("text_data_test.{}", ::getpid());
};

TEST_F(TextDataFile, KeepsTheLastTenthOfAPlainTextForValidation) {
  write("0123456789abcdefghij");
  const auto data = TextData::open(path_);
  ASSERT_TRUE(data) << data.error().what;
  EXPECT_EQ(text_of(data->training()), "0123456789abcdefgh");
  EXPECT_EQ(text_of(data->validation()), "ij");
}

TEST_F(TextDataFile, ThatWasPreparedIsTheSameDataAsItsText) {
  const std::string text(1000, 'x');
  const auto data = TextData::split(text, 0.1);
  ASSERT_TRUE(data);
  write(data->file());
  const auto again = TextData::open(path_);
  ASSERT_TRUE(again) << again.error().what;
  EXPECT_EQ(text_of(again->training()), text_of(data->training()));
  EXPECT_EQ(text_of(again->validation()), text_of(data->validation()));
  EXPECT_EQ(again->hash(), data->hash());
}

TEST_F(TextDataFile, ThatIsMissingOrEmptyIsNamedWithTheRemedy) {
  const auto missing = TextData::open(path_);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kUnavailable);
  EXPECT_THAT(missing.error().what, AllOf(HasSubstr(path_), HasSubstr("tools/get-text")));
  write("");
  const auto empty = TextData::open(path_);
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code, Code::kWrongData);
  EXPECT_THAT(empty.error().what, AllOf(HasSubstr(path_), HasSubstr("it is empty")));
}

TEST(TextData, HashTellsWhereItIsSplit) {
  EXPECT_NE(TextData::split("0123456789", 0.1)->hash(), TextData::split("0123456789", 0.2)->hash());
}

TEST(TextData, FindsWhateverByteOfAPreparedFileIsDamaged) {
  const std::string file = TextData::split("some text to train on", 0.2)->file();
  ASSERT_TRUE(TextData::parse(file));
  for (std::size_t at = 0; at < file.size(); ++at) {
    std::string damaged = file;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_FALSE(TextData::parse(damaged)) << at;
    EXPECT_FALSE(TextData::parse(file.substr(0, at))) << at;
  }
  EXPECT_FALSE(TextData::parse(file + "x"));
}

TEST(TextData, SaysWhatIsWrongWithAPreparedFile) {
  const std::string file = TextData::split(std::string(100, 'x'), 0.2)->file();
  std::string damaged = file;
  damaged.back() = 'y';
  EXPECT_THAT(TextData::parse(damaged).error().what, HasSubstr("differs from its checksum"));
  EXPECT_THAT(TextData::parse(file.substr(0, 90)).error().what,
              HasSubstr("50 bytes of text where its header says 80 + 20"));
  EXPECT_THAT(TextData::parse("TUTTI").error().what, HasSubstr("no data by 'tutti train prepare'"));
}

}  // namespace
}  // namespace tutti::trainer
