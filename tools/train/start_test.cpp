#include "tools/train/start.hpp"

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class FindStart : public testing::Test {
 protected:
  FindStart() : folder_(testing::TempDir() + fmt::format("start_test.{}", ::getpid())) {
    fs::create_directories(folder_);
  }
  ~FindStart() override { fs::remove_all(folder_); }
  void save(std::uint64_t step) const {
    auto comms = Comm::all(1);
    const auto table = training::ParameterTable::create({{"w", {2}}});
    const std::vector<float> values(2);
    const std::vector<training::OwnedPiece> owned = {{"parameter", 0, 0, values}};
    ASSERT_TRUE(training::save_checkpoint(folder_, {step, {}}, *table, owned, (*comms)[0]));
  }
  [[nodiscard]] std::uint64_t step_of(const Resume& resume) const {
    const auto start = find_start(folder_, resume);
    EXPECT_TRUE(start) << start.error().what;
    return start->checkpoint ? start->checkpoint->manifest().step : 0;
  }
  fs::path folder_;
};

TEST_F(FindStart, IsAnewWhereThereIsNothing) {
  EXPECT_EQ(step_of({}), 0U);
  EXPECT_EQ(step_of({.wanted = false}), 0U);
  EXPECT_THAT(find_start(folder_, {.step = 5}).error().what,
              HasSubstr("has checkpoints of steps []"));
}

TEST_F(FindStart, IsTheLatestOrTheOneThatIsNamed) {
  save(5);
  save(10);
  EXPECT_EQ(step_of({}), 10U);
  EXPECT_EQ(step_of({.step = 10}), 10U);
}

TEST_F(FindStart, RefusesCheckpointsThatWouldBeInTheWay) {
  save(5);
  save(10);
  EXPECT_THAT(find_start(folder_, {.wanted = false}).error().what, HasSubstr("of step 10"));
  EXPECT_THAT(find_start(folder_, {.step = 5}).error().what,
              HasSubstr("a later checkpoint, of step 10"));
}

TEST_F(FindStart, SetsOneAsideWhoseManifestIsDamaged) {
  save(5);
  save(10);
  std::ofstream(folder_ / "step_10" / "manifest.json") << "{";
  const auto start = find_start(folder_, {});
  ASSERT_TRUE(start) << start.error().what;
  EXPECT_EQ(start->checkpoint->manifest().step, 5U);
  ASSERT_EQ(start->notes.size(), 1U);
  EXPECT_THAT(start->notes[0], HasSubstr("step_10.damaged"));
  EXPECT_FALSE(fs::exists(folder_ / "step_10"));
}

TEST_F(FindStart, SetsOneAsideThatHasNoManifest) {
  save(5);
  save(10);
  fs::remove(folder_ / "step_10" / "manifest.json");
  EXPECT_EQ(step_of({}), 5U);
  EXPECT_TRUE(fs::exists(folder_ / "step_10.damaged"));
}

TEST_F(FindStart, LeavesOneThatIsOfAnotherVersion) {
  save(5);
  save(10);
  std::ofstream(folder_ / "step_10" / "manifest.json")
      << R"({"format": "tutti-checkpoint", "version": 2})";
  const auto start = find_start(folder_, {});
  ASSERT_FALSE(start);
  EXPECT_EQ(start.error().code, Code::kUnsupported);
  EXPECT_THAT(start.error().what, HasSubstr("step_10/manifest.json: the manifest is of version 2"));
  EXPECT_TRUE(fs::exists(folder_ / "step_10"));
}

}  // namespace
}  // namespace tutti::trainer
