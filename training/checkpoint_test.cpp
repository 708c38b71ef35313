#include "training/checkpoint.hpp"

#include <csignal>
#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <sys/resource.h>

#include "training/crc32c.hpp"
#include "training/flat_layout.hpp"
#include "training/test_model.hpp"

namespace tutti::training {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Crc32c, IsThatOfTheStandard) {  // RFC 3720, appendix B.4
  std::vector<std::byte> bytes(32);
  EXPECT_EQ(crc32c(bytes), 0x8a9136aaU);
  std::ranges::fill(bytes, std::byte{0xff});
  EXPECT_EQ(crc32c(bytes), 0x62a8ab43U);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c(bytes), 0x46dd794eU);
}

/// What element i of a parameter holds in a checkpoint of `step`; moments differ from parameters.
float value(std::uint64_t step, const std::string& kind, ParameterId id, std::size_t i) {
  const float base = kind == "parameter" ? 0.5F : 0.25F;
  return base + static_cast<float>(step * 100'000 + id * 10'000 + i);
}

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() {
    std::string name = ::testing::TempDir() + "tutti_checkpoint_XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~CheckpointTest() override { fs::remove_all(folder_); }

  /// Saved by so many ranks that shard everything; what each got.
  std::vector<Status> save(int ranks, std::uint64_t step) const {
    std::vector<Status> outcomes(static_cast<std::size_t>(ranks), ok_status());
    run_ranks(ranks, [&](Comm& comm) {
      outcomes[static_cast<std::size_t>(comm.rank())] = save_own(comm, step);
    });
    return outcomes;
  }
  Status save_own(Comm& comm, std::uint64_t step) const {
    const auto layout = *FlatLayout::create(model(), {{"a", {2, 0}}, {"b", {1}}}, comm.size());
    std::vector<std::vector<float>> memory;
    std::vector<OwnedPiece> owned;
    for (const char* const kind : {"parameter", "first"})
      for (GroupId group = 0; group < 2; ++group)
        for (const Piece& piece : layout.pieces(group, comm.rank())) {
          std::vector<float>& values = memory.emplace_back();
          for (std::size_t i = 0; i < piece.count; ++i)
            values.push_back(value(step, kind, piece.parameter, piece.begin + i));
          owned.push_back({kind, piece.parameter, piece.begin, values});
        }
    return save_checkpoint(folder_, {step, {{"samples", 10 * step}}}, model(), owned, comm);
  }
  static void expect_whole(const Checkpoint& checkpoint, std::uint64_t step) {
    EXPECT_EQ(checkpoint.manifest().step, step);
    EXPECT_EQ(checkpoint.manifest().counters.at("samples"), 10 * step);
    EXPECT_TRUE(checkpoint.check_model(model()));
    for (const char* const kind : {"parameter", "first"})
      for (ParameterId id = 0; id < 3; ++id)
        for (const std::size_t cut : {std::size_t{0}, model().elements(id) / 3}) {
          std::vector<float> values(model().elements(id) - cut);
          const Status read = checkpoint.read(kind, id, cut, values);
          ASSERT_TRUE(read) << read.error().what;
          for (std::size_t i = 0; i < values.size(); ++i)
            ASSERT_EQ(values[i], value(step, kind, id, cut + i));
        }
  }
  /// The first error of reading everything.
  static Status read_all(const Checkpoint& checkpoint) {
    for (ParameterId id = 0; id < 3; ++id) {
      std::vector<float> values(model().elements(id));
      if (Status read = checkpoint.read("parameter", id, 0, values); !read) return read;
    }
    return ok_status();
  }

  fs::path folder_;
};

TEST_F(CheckpointTest, IsReadWholeWhateverTheNumberOfItsWriters) {
  for (const int ranks : {1, 2, 3, 4}) {
    const auto step = static_cast<std::uint64_t>(ranks);
    for (const Status& saved : save(ranks, step)) ASSERT_TRUE(saved) << saved.error().what;
    const auto latest = Checkpoint::open(folder_);
    ASSERT_TRUE(latest) << latest.error().what;
    expect_whole(*latest, step);
  }
  expect_whole(*Checkpoint::open(folder_, 2), 2);
  EXPECT_FALSE(fs::exists(folder_ / "step_4.tmp"));
  std::string latest;
  std::getline(std::ifstream(folder_ / "latest"), latest);
  EXPECT_EQ(latest, "step_4");
}

TEST_F(CheckpointTest, OfAnEarlierStepServesWhereALaterOneIsNotComplete) {
  ASSERT_TRUE(save(2, 7)[0]);
  fs::create_directories(folder_ / "step_9.tmp");  // as a writer that was killed leaves it
  expect_whole(*Checkpoint::open(folder_), 7);
  fs::copy(folder_ / "step_7", folder_ / "step_8");
  fs::resize_file(folder_ / "step_8" / "manifest.json", 100);
  expect_whole(*Checkpoint::open(folder_), 7);
  EXPECT_THAT(Checkpoint::open(folder_, 8).error().what, HasSubstr("step_8/manifest.json"));
  ASSERT_TRUE(save(2, 9)[0]);  // takes the place of what was left
  expect_whole(*Checkpoint::open(folder_), 9);
}

TEST_F(CheckpointTest, SaysThatThereIsNone) {
  EXPECT_THAT(Checkpoint::open(folder_).error().what, HasSubstr("no checkpoint in"));
  EXPECT_EQ(Checkpoint::open(folder_ / "nowhere").error().code, Code::kUnavailable);
}

TEST_F(CheckpointTest, IsRefusedWhereItsFilesAreDamaged) {
  ASSERT_TRUE(save(2, 7)[0]);
  const auto checkpoint = *Checkpoint::open(folder_);
  const fs::path file = folder_ / "step_7" / "rank_1.bin";
  {
    std::fstream open(file, std::ios::in | std::ios::out | std::ios::binary);
    open.seekp(9);
    open.put('x');
  }
  const Status damaged = read_all(checkpoint);
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code, Code::kWrongData);
  EXPECT_THAT(damaged.error().what, AllOf(HasSubstr("rank_1.bin is damaged"), HasSubstr("'out'")));
  fs::resize_file(file, 40);
  EXPECT_THAT(read_all(checkpoint).error().what, HasSubstr("rank_1.bin was cut short"));
  fs::remove(file);
  EXPECT_EQ(read_all(checkpoint).error().code, Code::kUnavailable);
}

TEST_F(CheckpointTest, OfAnotherModelIsRefused) {
  ASSERT_TRUE(save(1, 7)[0]);
  const auto checkpoint = *Checkpoint::open(folder_);
  const auto other = *ParameterTable::create({{"in", {20, 4}}, {"bias", {20}, false}});
  EXPECT_THAT(checkpoint.check_model(other).error().what,
              HasSubstr("parameter 0 is 'in' of [20, 4] here and 'in' of [20, 3] there"));
}

TEST_F(CheckpointTest, IsSavedOnceAndWhole) {
  ASSERT_TRUE(save(2, 7)[0]);
  const auto again = save(2, 7);
  EXPECT_EQ(again[0].error().code, Code::kInvalidUsage);
  EXPECT_EQ(again[1].error().peer, 0);
  run_ranks(2, [&](Comm& comm) {  // nobody has the last parameter
    std::vector<float> values(60);
    std::vector<OwnedPiece> owned;
    if (comm.rank() == 0) owned.push_back({"parameter", 0, 0, values});
    const Status saved = save_checkpoint(folder_, {8, {}}, model(), owned, comm);
    ASSERT_FALSE(saved);
    if (comm.rank() == 0) {
      EXPECT_THAT(saved.error().what, HasSubstr("'bias' of kind 'parameter'"));
    }
  });
  expect_whole(*Checkpoint::open(folder_), 7);
}

/// A limit on the size of files stands for a disk that is full.
TEST_F(CheckpointTest, ThatDoesNotFitTheDiskLeavesTheOneBefore) {
  ASSERT_TRUE(save(2, 7)[0]);
  ASSERT_NE(std::signal(SIGXFSZ, SIG_IGN), SIG_ERR);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{500, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto refused = save(2, 8);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  for (const Status& one : refused) {
    ASSERT_FALSE(one);
    EXPECT_THAT(one.error().what, HasSubstr("rank_"));
  }
  expect_whole(*Checkpoint::open(folder_), 7);
  EXPECT_TRUE(save(2, 8)[0]);
}

}  // namespace
}  // namespace tutti::training
