#include "src/base/whole_file.hpp"

#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

using testing::HasSubstr;

/// A folder of the test's own.
class WholeFile : public testing::Test {
 protected:
  WholeFile() {
    std::string name = testing::TempDir() + "whole_file_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~WholeFile() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }
  [[nodiscard]] std::ptrdiff_t files() const {
    return std::distance(std::filesystem::directory_iterator(folder_), {});
  }

  std::filesystem::path folder_;
};

TEST_F(WholeFile, HoldsWhatWasWrittenLast) {
  ASSERT_TRUE(write_file(path("a"), "first, and longer"));
  ASSERT_TRUE(write_file(path("a"), "second"));
  EXPECT_EQ(*read_file(path("a"), 6), "second");
  EXPECT_EQ(files(), 1);
}

TEST_F(WholeFile, KeepsItsPermissionsAndTheLinkToIt) {
  ASSERT_TRUE(write_file(path("a"), "1"));
  std::filesystem::permissions(path("a"), std::filesystem::perms(0640));
  std::filesystem::create_symlink("a", path("link"));
  ASSERT_TRUE(write_file(path("link"), "2"));
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(*read_file(path("a"), 1), "2");
  EXPECT_EQ(std::filesystem::status(path("a")).permissions(), std::filesystem::perms(0640));
}

TEST_F(WholeFile, SaysWhyItCannotBeReadOrWritten) {
  EXPECT_THAT(read_file(path("none"), 1).error().what, HasSubstr("none': No such file"));
  EXPECT_THAT(write_file(path("none/a"), "").error().what, HasSubstr("none/a': No such file"));
  ASSERT_TRUE(write_file(path("a"), "1234"));
  EXPECT_THAT(read_file(path("a"), 3).error().what, HasSubstr("larger than the 3 bytes"));
}

}  // namespace
}  // namespace tutti
