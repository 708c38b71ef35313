#include "tools/train/run_folder.hpp"

#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class RunFolderTest : public testing::Test {
 protected:
  RunFolderTest() : folder_(testing::TempDir() + fmt::format("run_folder_test.{}", ::getpid())) {}
  ~RunFolderTest() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(RunFolderTest, IsOfOneRunAtATime) {
  {
    const auto first = RunFolder::take(folder_ / "deep");
    ASSERT_TRUE(first) << first.error().what;
    const auto second = RunFolder::take(folder_ / "deep");
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::kInvalidUsage);
    EXPECT_THAT(second.error().what, HasSubstr("another run is writing there"));
  }
  EXPECT_TRUE(RunFolder::take(folder_ / "deep"));
}

TEST_F(RunFolderTest, IsKnownByTheMarkOfTheRun) {
  const auto taken = RunFolder::take(folder_);
  ASSERT_TRUE(taken) << taken.error().what;
  EXPECT_TRUE(find_mark(folder_, taken->mark()));
  EXPECT_FALSE(find_mark(folder_, taken->mark() + 1));
  const Status other = find_mark(folder_ / "other", taken->mark());
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().what, HasSubstr("is not the folder that rank 0 writes to"));
}

TEST_F(RunFolderTest, ThatCannotBeIsExplained) {
  std::ofstream(folder_.string()) << "a file in its place";
  const auto taken = RunFolder::take(folder_ / "out");
  ASSERT_FALSE(taken);
  EXPECT_THAT(taken.error().what, HasSubstr("cannot create --out"));
  fs::remove(folder_);
}

}  // namespace
}  // namespace tutti::trainer
