#include "tools/train/saver.hpp"

#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "training/checkpoint_folders.hpp"

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using training::Checkpoint;
using training::OwnedPiece;
using training::ParameterTable;

class SaverTest : public testing::Test {
 protected:
  SaverTest() : folder_(testing::TempDir() + fmt::format("saver_test.{}", ::getpid())) {
    fs::create_directories(folder_);
  }
  ~SaverTest() override { fs::remove_all(folder_); }
  fs::path folder_;
  ParameterTable table_ = *ParameterTable::create({{"w", {8}}});
};

TEST_F(SaverTest, WritesWhatWasThereWhenItWasAsked) {
  auto comms = Comm::all(2);
  ASSERT_TRUE(comms);
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      Saver saver(folder_, table_, 0, std::move((*comms)[static_cast<std::size_t>(rank)]));
      std::vector<float> mine(4);
      for (std::uint64_t step = 1; step <= 3; ++step) {
        std::ranges::fill(mine, static_cast<float>(step * 10) + static_cast<float>(rank));
        const std::vector<OwnedPiece> owned = {
            {"parameter", 0, static_cast<std::uint64_t>(4 * rank), mine}};
        EXPECT_TRUE(saver.save({step, {}}, owned));
        std::ranges::fill(mine, -1.0F);  // training goes on
      }
      EXPECT_TRUE(saver.finish());
    });
  ranks.clear();
  for (std::uint64_t step = 1; step <= 3; ++step) {
    const auto checkpoint = Checkpoint::open(folder_, step);
    ASSERT_TRUE(checkpoint) << checkpoint.error().what;
    std::vector<float> values(8);
    ASSERT_TRUE(checkpoint->read("parameter", 0, 0, values));
    const auto ten = static_cast<float>(step * 10);
    EXPECT_THAT(values, ElementsAre(ten, ten, ten, ten, ten + 1, ten + 1, ten + 1, ten + 1));
  }
}

TEST_F(SaverTest, KeepsTheLatestCheckpointsAlone) {
  Saver saver(folder_, table_, 2, std::move((*Comm::all(1))[0]));
  const std::vector<float> values(8);
  const std::vector<OwnedPiece> owned = {{"parameter", 0, 0, values}};
  fs::create_directories(folder_ / "step_3.tmp");
  fs::create_directories(folder_ / "step_90.tmp");
  for (const std::uint64_t step : {5U, 9U, 10U, 100U}) ASSERT_TRUE(saver.save({step, {}}, owned));
  ASSERT_TRUE(saver.finish());
  EXPECT_THAT(*training::complete_steps(folder_), ElementsAre(10, 100));
  EXPECT_FALSE(fs::exists(folder_ / "step_3.tmp"));
  EXPECT_FALSE(fs::exists(folder_ / "step_90.tmp"));
}

TEST_F(SaverTest, TellsOfAWriteThatFailedAtTheNextOne) {
  Saver saver(folder_ / "gone", table_, 0, std::move((*Comm::all(1))[0]));
  std::ofstream(folder_ / "gone") << "a file in the place of a folder";
  const std::vector<float> values(8);
  const std::vector<OwnedPiece> owned = {{"parameter", 0, 0, values}};
  ASSERT_TRUE(saver.save({1, {}}, owned));
  const Status next = saver.save({2, {}}, owned);
  ASSERT_FALSE(next);
  EXPECT_THAT(next.error().what, HasSubstr("gone"));
  EXPECT_FALSE(saver.finish());
}

TEST(RemoveUnfinished, LeavesWhatIsComplete) {
  const fs::path folder = testing::TempDir() + fmt::format("unfinished_test.{}", ::getpid());
  for (const char* name : {"step_1", "step_2.tmp", "step_7.tmp", "other.tmp"})
    fs::create_directories(folder / name / "deep");
  remove_unfinished(folder);
  for (const char* name : {"step_2.tmp", "step_7.tmp"}) EXPECT_FALSE(fs::exists(folder / name));
  for (const char* name : {"step_1", "other.tmp"}) EXPECT_TRUE(fs::exists(folder / name));
  fs::remove_all(folder);
}

TEST(Prune, TakesNothingWhereAllAreKept) {
  const fs::path folder = testing::TempDir() + fmt::format("prune_test.{}", ::getpid());
  for (const char* name : {"step_1", "step_2", "step_7.tmp", "other"})
    fs::create_directories(folder / name);
  prune(folder, 2, 0);
  EXPECT_THAT(*training::complete_steps(folder), ElementsAre(1, 2));
  EXPECT_TRUE(fs::exists(folder / "step_7.tmp")) << "of a later step";
  prune(folder, 2, 1);
  EXPECT_THAT(*training::complete_steps(folder), ElementsAre(2));
  EXPECT_TRUE(fs::exists(folder / "other"));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tutti::trainer
