#include "tools/train/checkpoints.hpp"

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class Checkpoints : public testing::Test {
 protected:
  Checkpoints() : folder_(testing::TempDir() + fmt::format("checkpoints_test.{}", ::getpid())) {
    fs::create_directories(folder_);
  }
  ~Checkpoints() override { fs::remove_all(folder_); }

  static WholeCheckpoint example() {
    WholeCheckpoint whole{{7, {{"samples", 12}}},
                          *training::ParameterTable::create(
                              {{"in", {3, 5}}, {"bias", {3}, false}, {"scale", {}, false}}),
                          {}};
    for (const char* kind : {"first", "parameter", "second"}) {
      whole.kinds.push_back({kind, {}});
      for (training::ParameterId id = 0; id < whole.table.size(); ++id) {
        std::vector<float>& values = whole.kinds.back().values.emplace_back();
        for (std::size_t i = 0; i < whole.table.elements(id); ++i)
          values.push_back(static_cast<float>(100 * id + i + whole.kinds.size() * 1000));
      }
    }
    return whole;
  }
  /// What is in one of its folders, or all of an error.
  [[nodiscard]] WholeCheckpoint read(const fs::path& path) const {
    const auto checkpoint = open_checkpoint(path);
    EXPECT_TRUE(checkpoint) << checkpoint.error().what;
    auto whole = read_whole(*checkpoint);
    EXPECT_TRUE(whole) << whole.error().what;
    return *std::move(whole);
  }
  static void expect_equal(const WholeCheckpoint& a, const WholeCheckpoint& b) {
    EXPECT_EQ(a.head.step, b.head.step);
    EXPECT_EQ(a.head.counters, b.head.counters);
    EXPECT_EQ(a.table, b.table);
    ASSERT_EQ(a.kinds.size(), b.kinds.size());
    for (std::size_t i = 0; i < a.kinds.size(); ++i) {
      EXPECT_EQ(a.kinds[i].name, b.kinds[i].name);
      EXPECT_EQ(a.kinds[i].values, b.kinds[i].values);
    }
  }
  fs::path folder_;
};

TEST_F(Checkpoints, AreTheSameForHoweverManyRanksTheyAreWritten) {
  for (const int ranks : {1, 2, 3, 5, 24}) {
    const fs::path to = folder_ / std::to_string(ranks);
    fs::create_directories(to);
    const Status written = write_whole(to, example(), ranks);
    ASSERT_TRUE(written) << written.error().what;
    expect_equal(read(to), example());
    EXPECT_TRUE(fs::exists(to / "step_7" / fmt::format("rank_{}.bin", ranks - 1)));
  }
}

TEST_F(Checkpoints, AreFoundByTheirFolderOrTheOneAround) {
  ASSERT_TRUE(write_whole(folder_, example(), 1));
  expect_equal(read(folder_), example());
  expect_equal(read(folder_ / "step_7"), example());
  expect_equal(read(folder_ / "step_7" / ""), example());
  fs::rename(folder_ / "step_7", folder_ / "mine");
  EXPECT_THAT(open_checkpoint(folder_ / "mine").error().what, HasSubstr("name it so"));
}

TEST_F(Checkpoints, AreInspectedWithEveryChecksum) {
  ASSERT_TRUE(write_whole(folder_, example(), 2));
  const auto found = inspect(*open_checkpoint(folder_));
  ASSERT_TRUE(found) << found.error().what;
  EXPECT_THAT(found->text, AllOf(HasSubstr("step 7"), HasSubstr("3 x 5"), HasSubstr("samples"),
                                 HasSubstr("checksums: all right")));
  const auto json = nlohmann::json::parse(found->json, nullptr, false);
  EXPECT_EQ(json["step"], 7);
  EXPECT_EQ(json["parameters"].size(), 3U);
  EXPECT_EQ(json["kinds"].size(), 3U);

  std::fstream file(folder_ / "step_7" / "rank_1.bin", std::ios::in | std::ios::out);
  file.seekp(9).put('!');
  file.close();
  const auto damaged = inspect(*open_checkpoint(folder_));
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code, Code::kWrongData);
  EXPECT_THAT(damaged.error().what, HasSubstr("rank_1.bin is damaged"));
}

TEST_F(Checkpoints, GiveTheirWeightsAwayAndTakeThemBack) {
  ASSERT_TRUE(write_weights(folder_ / "x.safetensors", example()));
  const auto back = read_weights(folder_ / "x.safetensors");
  ASSERT_TRUE(back) << back.error().what;
  EXPECT_EQ(back->head.step, 7U);
  EXPECT_EQ(back->head.counters, example().head.counters);
  EXPECT_EQ(back->table, example().table);
  EXPECT_EQ(back->kinds[1].values, example().kinds[1].values);
  EXPECT_EQ(back->kinds[0].values[0], std::vector<float>(15)) << "moments are zero";
}

TEST_F(Checkpoints, AreNotWrittenOverOneOfTheSameStep) {
  ASSERT_TRUE(write_whole(folder_, example(), 1));
  const Status again = write_whole(folder_, example(), 2);
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().what, HasSubstr("a step is saved once"));
}

}  // namespace
}  // namespace tutti::trainer
