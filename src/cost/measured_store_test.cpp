#include "src/cost/measured_store.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <span>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/clock.hpp"
#include "src/cost/tuning.hpp"

namespace tutti {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;
using testing::UnorderedElementsAreArray;

constexpr std::string_view kMachine = "A \"fast\" CPU, 2 CPUs, Linux 6.1";

/// Made at the same time throughout a run, or verdicts made a second apart would differ.
MeasuredRange verdict(std::uint8_t size, std::int32_t ranks = 4, std::int64_t age_s = 0) {
  static const std::int64_t kNow = seconds_since_1970();
  return verdict_on({Collective::kAllToAll, size}, {ranks, 1, ranks}, {"direct", size % 2 == 0},
                    kNow - age_s);
}

std::string text_of(const std::vector<MeasuredRange>& ranges, std::string_view machine = kMachine) {
  MeasuredTable table;
  table.machine = machine;
  for (const MeasuredRange& range : ranges) table.add(range);
  return table.text();
}

std::vector<MeasuredRange> ranges_in(MeasuredStore& store, std::int32_t ranks = 4) {
  return store.table().of_ranks(ranks).ranges();
}
std::vector<MeasuredRange> ranges_in(MeasuredStore&& store, std::int32_t ranks = 4) {
  return ranges_in(store, ranks);
}

/// A folder for one test, removed with it.
class TuningFile : public ::testing::Test {
 protected:
  TuningFile() {
    std::string name = std::filesystem::temp_directory_path() / "tuning_XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~TuningFile() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  [[nodiscard]] std::string path() const { return folder_ / "deeper" / "tuning.json"; }
  [[nodiscard]] MeasuredStore store() const {
    return {path(), "TUTTI_TUNING_FILE", std::string(kMachine)};
  }
  /// What a store of the file logs when it reads.
  [[nodiscard]] std::string said_by(MeasuredStore&& reader) const {
    ::testing::internal::CaptureStderr();
    EXPECT_THAT(ranges_in(reader), IsEmpty());
    return ::testing::internal::GetCapturedStderr();
  }
  [[nodiscard]] std::string contents() const {
    std::ifstream in(path());
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(std::string_view text) const {
    std::filesystem::create_directories(folder_ / "deeper");
    std::ofstream(path()) << text;
  }
  std::filesystem::path folder_;
};

TEST(TuningSetting, NamesAFileOfTheMachineInTheCache) {
  const auto environment = [](std::map<std::string, std::string> variables) -> Environment {
    return [variables](const std::string& name) -> std::optional<std::string> {
      const auto at = variables.find(name);
      return at == variables.end() ? std::nullopt : std::optional(at->second);
    };
  };
  EXPECT_EQ(measured_file("auto", environment({{"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}}), kMachine,
                          ".json"),
            "/x/tutti/A-fast-CPU-2-CPUs-Linux-6.1.json");
  EXPECT_EQ(measured_file("auto", environment({{"HOME", "/h"}}), "m", ".json"),
            "/h/.cache/tutti/m.json");
  EXPECT_EQ(measured_file("auto", environment({}), "m", ".json"), "");
  EXPECT_EQ(measured_file("none", environment({{"HOME", "/h"}}), "m", ".json"), "");
  EXPECT_EQ(measured_file("/dev/null", environment({{"HOME", "/h"}}), "m", ".json"), "");
  EXPECT_EQ(measured_file("/my/file", environment({{"HOME", "/h"}}), "m", ".json"), "/my/file");
}

TEST(TuningSetting, TheMachineHasAName) { EXPECT_THAT(machine_signature(), HasSubstr("CPUs")); }

TEST_F(TuningFile, IsMadeWithItsFoldersAndReadByTheNextProcess) {
  store().add(verdict(3), /*keep=*/true);
  EXPECT_THAT(ranges_in(store()), ElementsAre(verdict(3)));
  EXPECT_THAT(ranges_in(store(), 5), IsEmpty());
}

TEST_F(TuningFile, HoldsNothingThatIsNotToBeKept) {
  MeasuredStore one = store();
  one.add(verdict(3), /*keep=*/false);
  EXPECT_THAT(ranges_in(one), ElementsAre(verdict(3)));
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(TuningFile, KeepsWhatOtherProcessesWroteMeanwhile) {
  MeasuredStore one = store(), other = store();
  EXPECT_THAT(ranges_in(one), IsEmpty());
  EXPECT_THAT(ranges_in(other), IsEmpty());
  one.add(verdict(3), true);
  other.add(verdict(5), true);
  EXPECT_THAT(ranges_in(store()), UnorderedElementsAre(verdict(3), verdict(5)));
}

TEST_F(TuningFile, ForgetsVerdictsOfOldAndOfTheFuture) {
  const std::int64_t week = 7 * 24 * 3600;
  write(text_of({verdict(3, 4, week - 60), verdict(4, 4, week + 60), verdict(5, 4, -2 * week)}));
  EXPECT_THAT(ranges_in(store()), ElementsAre(verdict(3, 4, week - 60)));
}

/// Of `count` classes, one second older each.
std::vector<MeasuredRange> many_verdicts(std::int32_t count) {
  std::vector<MeasuredRange> verdicts;
  for (std::int32_t i = 0; i < count; ++i)
    verdicts.push_back(verdict(static_cast<std::uint8_t>(i % 32), 4 + i / 32, 60 + i));
  return verdicts;
}

// Of several processes each may know as many as one file holds.
TEST_F(TuningFile, KeepsTheNewestVerdictsWhereThereAreTooMany) {
  const std::vector<MeasuredRange> many = many_verdicts(2 * kMostRanges);
  const auto half = many.begin() + kMostRanges;
  MeasuredStore one = store();
  for (const MeasuredRange& old : std::span(half, many.end())) one.add(old, false);
  write(text_of({many.begin(), half}));
  EXPECT_EQ(one.table().ranges().size(), kMostRanges);
  const MeasuredRange another = verdict(3, 1000);
  one.add(another, true);
  EXPECT_THAT(ranges_in(one, 1000), ElementsAre(another));
  EXPECT_EQ(one.table().ranges().size(), kMostRanges);

  MeasuredStore next = store();
  EXPECT_EQ(next.table().ranges().size(), kMostRanges);
  EXPECT_THAT(ranges_in(next, 1000), ElementsAre(another));
  EXPECT_THAT(ranges_in(next), UnorderedElementsAreArray(many.begin(), many.begin() + 32));
  const MeasuredRange& last = many[kMostRanges - 2];
  EXPECT_THAT(ranges_in(next, last.arrangement.ranks), Contains(last));
  EXPECT_THAT(ranges_in(next, half[-1].arrangement.ranks), Not(Contains(half[-1])));
}

TEST_F(TuningFile, ThatIsTooLargeToBeReadIsReplaced) {
  write(text_of({verdict(3)}) + std::string(kMostTableBytes, ' '));
  MeasuredStore one = store();
  EXPECT_THAT(ranges_in(one), IsEmpty());
  one.add(verdict(3), true);
  EXPECT_THAT(ranges_in(store()), ElementsAre(verdict(3)));
}

TEST_F(TuningFile, OfAnotherMachineSaysNothingHere) {
  write(text_of({verdict(3)}, "another"));
  EXPECT_EQ(said_by(store()), "");
  store().add(verdict(4), true);
  EXPECT_THAT(ranges_in(store()), ElementsAre(verdict(4)));
}

TEST_F(TuningFile, OfAnEarlierFormatSaysNothingAndIsReplaced) {
  for (const int format : {1, 2, 4}) {
    write(fmt::format(R"({{"format": {}, "machine": "a", "verdicts": [{{}}]}})", format));
    EXPECT_EQ(said_by(store()), "");
    store().add(verdict(3), true);
    EXPECT_THAT(ranges_in(store()), ElementsAre(verdict(3)));
  }
}

TEST_F(TuningFile, ThatIsDamagedIsReportedWithWhatItIsFor) {
  write(text_of({verdict(3)}).replace(100, 1, "oops"));
  EXPECT_THAT(said_by(store()),
              AllOf(HasSubstr(path()), HasSubstr("TUTTI_TUNING_FILE"), HasSubstr("measured anew")));
  write(R"({"format": 4, "machine": "a", "verdicts": []})");
  EXPECT_THAT(said_by({path(), "TUTTI_TUNING_TABLE"}),
              AllOf(HasSubstr("TUTTI_TUNING_TABLE"), HasSubstr("chosen without it")));
}

TEST_F(TuningFile, EachSettingRefusesTheFileOfTheOther) {
  write(text_of({verdict(3)}));
  EXPECT_THAT(said_by({path(), "TUTTI_TUNING_TABLE"}), HasSubstr("let TUTTI_TUNING_FILE name it"));
  EXPECT_THAT(ranges_in(MeasuredStore(path(), "TUTTI_TUNING_TABLE")), IsEmpty());
  write(text_of({verdict(3)}, /*machine=*/""));
  EXPECT_THAT(said_by(store()), HasSubstr("let TUTTI_TUNING_TABLE name it"));
}

TEST_F(TuningFile, ThatIsDamagedIsReplaced) {
  for (const std::string_view damaged :
       {"", "{", "{\"format\": \"tutti-tab", "{\"format\": 1}", "{\"format\": 1, \xff"}) {
    write(damaged);
    MeasuredStore one = store();
    EXPECT_THAT(ranges_in(one), IsEmpty()) << damaged;
    one.add(verdict(3), true);
    EXPECT_THAT(ranges_in(store()), ElementsAre(verdict(3))) << damaged;
  }
}

TEST_F(TuningFile, OfSomebodyElseStaysAsItIs) {
  for (const std::string& text : {std::string("[]"), std::string("my notes"),
                                  std::string("\xff\x01"), text_of({verdict(3)}, /*machine=*/"")}) {
    write(text);
    MeasuredStore one = store();
    one.add(verdict(3), true);
    EXPECT_THAT(ranges_in(one), ElementsAre(verdict(3))) << text;
    EXPECT_EQ(contents(), text);
  }
}

// As on a disk that is full.
TEST_F(TuningFile, ThatCannotBeWrittenLeavesTheOldOneAndNothingElse) {
  store().add(verdict(3), true);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  store().add(verdict(4), true);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_THAT(ranges_in(store()), ElementsAre(verdict(3)));
  EXPECT_FALSE(std::filesystem::exists(path() + ".new"));
}

TEST_F(TuningFile, ThatIsAPipeOrADeviceIsNeitherWaitedForNorReplaced) {
  write("");
  std::filesystem::remove(path());
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  store().add(verdict(3), true);
  EXPECT_TRUE(std::filesystem::is_fifo(path()));
  std::filesystem::remove(path());
  ASSERT_EQ(::mkfifo((path() + ".new").c_str(), 0600), 0);
  store().add(verdict(3), true);
  EXPECT_FALSE(std::filesystem::exists(path()));
  MeasuredStore("/dev/zero", "X", std::string(kMachine)).add(verdict(3), true);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/zero"));
}

TEST_F(TuningFile, ThatCannotBeWrittenIsNoError) {
  std::filesystem::create_directories(path());  // a folder is in its place
  MeasuredStore one = store();
  one.add(verdict(3), true);
  EXPECT_THAT(ranges_in(one), ElementsAre(verdict(3)));
  MeasuredStore nowhere("/proc/no/such/place", "X", std::string(kMachine));
  nowhere.add(verdict(3), true);
  EXPECT_THAT(ranges_in(nowhere), ElementsAre(verdict(3)));
}

TEST_F(TuningFile, ALeftOverOfAKilledWriterIsTakenOver) {
  write("");
  std::ofstream(path() + ".new") << std::string(100000, 'x');
  store().add(verdict(3), true);
  EXPECT_THAT(ranges_in(store()), ElementsAre(verdict(3)));
  EXPECT_FALSE(std::filesystem::exists(path() + ".new"));
}

// Each process may miss its turn while another writes; the file is whole at every moment.
TEST_F(TuningFile, ManyWritersLeaveAWholeFile) {
  std::vector<std::thread> writers;
  for (std::uint8_t writer = 0; writer < 4; ++writer)
    writers.emplace_back([&, writer] {
      MeasuredStore mine = store();
      for (std::uint8_t i = 0; i < 15; ++i)
        mine.add(verdict(static_cast<std::uint8_t>(4 * i + writer)), true);
    });
  for (std::thread& writer : writers) writer.join();
  const auto parsed = MeasuredTable::parse(contents());
  ASSERT_TRUE(parsed) << parsed.error().what << "\n" << contents();
  EXPECT_GE(parsed->ranges().size(), 15U);
}

}  // namespace
}  // namespace tutti
