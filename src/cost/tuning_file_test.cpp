#include "src/cost/tuning_file.hpp"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tutti {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

constexpr std::string_view kMachine = "A \"fast\" CPU, 2 CPUs, Linux 6.1";

/// The same throughout a run, or verdicts made a second apart would differ.
std::int64_t now() {
  using std::chrono::system_clock;
  static const auto kStart = system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(kStart).count();
}

Verdict verdict(std::uint8_t size, std::int32_t ranks = 4, std::int64_t age_s = 0) {
  return {{Collective::kAllToAll, ranks, size}, {"direct", size % 2 == 0}, now() - age_s};
}

std::string file_error(std::string_view text) {
  const auto parsed = parse_tuning(text, kMachine);
  return parsed ? "" : parsed.error().what;
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
  TuningStore store() { return {path(), std::string(kMachine)}; }
  void write(std::string_view text) const {
    std::filesystem::create_directories(folder_ / "deeper");
    std::ofstream(path()) << text;
  }
  std::filesystem::path folder_;
};

TEST(TuningText, ComesBackAsItWasWritten) {
  const std::vector<Verdict> verdicts = {verdict(3),
                                         verdict(18),
                                         {{Collective::kReduce, 8, 20}, {"two_shot", false}, 5},
                                         {{Collective::kReduce, 8, 20, 3, 4}, {"ring", false}, 5},
                                         {{Collective::kReduce, 8, 20, 3, 4, 2, ~0U}, {"ring"}, 5}};
  const auto parsed = parse_tuning(tuning_text(kMachine, verdicts), kMachine);
  ASSERT_TRUE(parsed) << parsed.error().what;
  EXPECT_EQ(*parsed, verdicts);
  EXPECT_THAT(*parse_tuning(tuning_text(kMachine, {}), kMachine), IsEmpty());
}

TEST(TuningText, OfAnotherMachineSaysNothingHere) {
  const auto parsed = parse_tuning(tuning_text("another", {verdict(3)}), kMachine);
  ASSERT_TRUE(parsed) << parsed.error().what;
  EXPECT_THAT(*parsed, IsEmpty());
}

TEST(TuningText, CutAnywhereIsRefused) {
  const std::string whole = tuning_text(kMachine, {verdict(3)});
  for (std::size_t length = 0; length + 2 < whole.size(); ++length)
    EXPECT_NE(file_error(whole.substr(0, length)), "") << length;
}

TEST(TuningText, AnErrorNamesTheLineOrTheVerdict) {
  std::string text = tuning_text(kMachine, {verdict(3), verdict(4)});
  const std::string whole = text;
  text.insert(text.find("\"ranks\": 4", text.rfind("collective")), "oops ");
  EXPECT_THAT(file_error(text), HasSubstr("line 5"));
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string copy = whole;
    return copy.replace(copy.find(from), from.size(), to);
  };
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"all_to_all", "all_to_some"},
           {"\"ranks\": 4", "\"ranks\": -4"},
           {"\"ranks\": 4", "\"ranks\": 1e300"},
           {"\"ranks\": 4", "\"ranks\": \"4\""},
           {"\"hosts\": 1", "\"hosts\": 0"},
           {"\"hosts\": 1", "\"hosts\": 5"},
           {"\"most_on_a_host\": 4", "\"most_on_a_host\": 5"},
           {"\"most_on_a_host\": 4", "\"most_at_home\": 4"},
           {"\"machines\": 1", "\"machines\": 2"},
           {"\"mbit_per_s\": 0", "\"mbit_per_s\": 4294967296"},
           {"\"log2_bytes\": 3", "\"log2_bytes\": 64"},
           {"\"kernel_reads\": false", "\"kernel_reads\": 0"},
           {"\"algorithm\": \"direct\"", "\"algorithm\": [1]"}})
    EXPECT_THAT(file_error(changed(from, to)), HasSubstr("verdict 1")) << to;
  EXPECT_THAT(file_error(changed("\"format\": 4", "\"format\": 5")), HasSubstr("format"));
}

/// Of `count` classes, one second older each.
std::vector<Verdict> many_verdicts(std::int32_t count) {
  std::vector<Verdict> verdicts;
  for (std::int32_t i = 0; i < count; ++i)
    verdicts.push_back(verdict(static_cast<std::uint8_t>(i % 64), 4 + i / 64, 60 + i));
  return verdicts;
}

TEST(TuningText, OfAnEarlierFormatSaysNothing) {
  for (const int format : {1, 2}) {
    const std::string text =
        fmt::format(R"({{"format": {}, "machine": "a", "verdicts": [{{}}]}})", format);
    const auto parsed = parse_tuning(text, "a");
    ASSERT_TRUE(parsed) << parsed.error().what;
    EXPECT_THAT(*parsed, IsEmpty());
  }
}

TEST(TuningSetting, NamesAFileOfTheMachineInTheCache) {
  const auto environment = [](std::map<std::string, std::string> variables) -> Environment {
    return [variables](const std::string& name) -> std::optional<std::string> {
      const auto at = variables.find(name);
      return at == variables.end() ? std::nullopt : std::optional(at->second);
    };
  };
  EXPECT_EQ(tuning_file("auto", environment({{"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}}), kMachine),
            "/x/tutti/A-fast-CPU-2-CPUs-Linux-6.1.json");
  EXPECT_EQ(tuning_file("auto", environment({{"HOME", "/h"}}), "m"), "/h/.cache/tutti/m.json");
  EXPECT_EQ(tuning_file("auto", environment({}), "m"), "");
  EXPECT_EQ(tuning_file("none", environment({{"HOME", "/h"}}), "m"), "");
  EXPECT_EQ(tuning_file("/dev/null", environment({{"HOME", "/h"}}), "m"), "");
  EXPECT_EQ(tuning_file("/my/file", environment({{"HOME", "/h"}}), "m"), "/my/file");
}

TEST(TuningSetting, TheMachineHasAName) { EXPECT_THAT(machine_signature(), HasSubstr("CPUs")); }

TEST_F(TuningFile, IsMadeWithItsFoldersAndReadByTheNextProcess) {
  store().add(verdict(3), /*keep=*/true);
  EXPECT_THAT(store().verdicts(4), ElementsAre(verdict(3)));
  EXPECT_THAT(store().verdicts(5), IsEmpty());
}

TEST_F(TuningFile, HoldsNothingThatIsNotToBeKept) {
  TuningStore one = store();
  one.add(verdict(3), /*keep=*/false);
  EXPECT_THAT(one.verdicts(4), ElementsAre(verdict(3)));
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(TuningFile, KeepsWhatOtherProcessesWroteMeanwhile) {
  TuningStore one = store(), other = store();
  EXPECT_THAT(one.verdicts(4), IsEmpty());
  EXPECT_THAT(other.verdicts(4), IsEmpty());
  one.add(verdict(3), true);
  other.add(verdict(5), true);
  EXPECT_THAT(store().verdicts(4), UnorderedElementsAre(verdict(3), verdict(5)));
}

TEST_F(TuningFile, ForgetsVerdictsOfOldAndOfTheFuture) {
  const std::int64_t week = 7 * 24 * 3600;
  write(tuning_text(
      kMachine, {verdict(3, 4, week - 60), verdict(4, 4, week + 60), verdict(5, 4, -2 * week)}));
  EXPECT_THAT(store().verdicts(4), ElementsAre(verdict(3, 4, week - 60)));
}

// Of several processes each may know as many as one file holds.
TEST_F(TuningFile, KeepsTheNewestVerdictsWhereThereAreTooMany) {
  constexpr std::size_t kMost = 4096;
  const std::vector<Verdict> many = many_verdicts(2 * kMost);
  write(tuning_text(kMachine, many));
  TuningStore one = store();
  EXPECT_EQ(one.size(), kMost);
  const Verdict another = verdict(3, 1000);
  one.add(another, true);
  EXPECT_THAT(one.verdicts(1000), ElementsAre(another));
  EXPECT_EQ(one.size(), kMost);

  TuningStore next = store();
  EXPECT_EQ(next.size(), kMost);
  EXPECT_THAT(next.verdicts(1000), ElementsAre(another));
  EXPECT_THAT(next.verdicts(4), ElementsAreArray(many.begin(), many.begin() + 64));
  EXPECT_THAT(next.verdicts(many[kMost - 2].of.ranks), Contains(many[kMost - 2]));
  EXPECT_THAT(next.verdicts(many[kMost - 1].of.ranks), Not(Contains(many[kMost - 1])));
}

TEST_F(TuningFile, ThatIsTooLargeToBeReadIsReplaced) {
  write(tuning_text(kMachine, many_verdicts(64'000)));
  TuningStore one = store();
  EXPECT_THAT(one.verdicts(4), IsEmpty());
  one.add(verdict(3), true);
  EXPECT_THAT(store().verdicts(4), ElementsAre(verdict(3)));
}

TEST_F(TuningFile, TellsTheNewestFirst) {
  write(tuning_text(kMachine, {verdict(3, 4, 20), verdict(4, 4, 30), verdict(5, 4, 10)}));
  EXPECT_THAT(store().verdicts(4),
              ElementsAre(verdict(5, 4, 10), verdict(3, 4, 20), verdict(4, 4, 30)));
}

TEST_F(TuningFile, ThatIsDamagedIsReplaced) {
  for (const std::string_view damaged : {"", "{", "{\"format\": 1}", "{\"format\": 1, \xff"}) {
    write(damaged);
    TuningStore one = store();
    EXPECT_THAT(one.verdicts(4), IsEmpty()) << damaged;
    one.add(verdict(3), true);
    EXPECT_THAT(store().verdicts(4), ElementsAre(verdict(3))) << damaged;
  }
}

TEST_F(TuningFile, OfSomebodyElseStaysAsItIs) {
  for (const std::string text : {"[]", "my notes", "\xff\x01"}) {
    write(text);
    TuningStore one = store();
    one.add(verdict(3), true);
    EXPECT_THAT(one.verdicts(4), ElementsAre(verdict(3))) << text;
    std::ifstream in(path());
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), text);
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
  EXPECT_THAT(store().verdicts(4), ElementsAre(verdict(3)));
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
  TuningStore("/dev/zero", std::string(kMachine)).add(verdict(3), true);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/zero"));
}

TEST_F(TuningFile, ThatCannotBeWrittenIsNoError) {
  std::filesystem::create_directories(path());  // a folder is in its place
  TuningStore one = store();
  one.add(verdict(3), true);
  EXPECT_THAT(one.verdicts(4), ElementsAre(verdict(3)));
  TuningStore nowhere("/proc/no/such/place", std::string(kMachine));
  nowhere.add(verdict(3), true);
  EXPECT_THAT(nowhere.verdicts(4), ElementsAre(verdict(3)));
}

TEST_F(TuningFile, ALeftOverOfAKilledWriterIsTakenOver) {
  write("");
  std::ofstream(path() + ".new") << std::string(100000, 'x');
  store().add(verdict(3), true);
  EXPECT_THAT(store().verdicts(4), ElementsAre(verdict(3)));
  EXPECT_FALSE(std::filesystem::exists(path() + ".new"));
}

// Each process may miss its turn while another writes; the file is whole at every moment.
TEST_F(TuningFile, ManyWritersLeaveAWholeFile) {
  std::vector<std::thread> writers;
  for (std::uint8_t writer = 0; writer < 4; ++writer)
    writers.emplace_back([&, writer] {
      TuningStore mine = store();
      for (std::uint8_t i = 0; i < 15; ++i)
        mine.add(verdict(static_cast<std::uint8_t>(4 * i + writer)), true);
    });
  for (std::thread& writer : writers) writer.join();
  std::ifstream in(path());
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto parsed = parse_tuning(text, kMachine);
  ASSERT_TRUE(parsed) << parsed.error().what << "\n" << text;
  EXPECT_GE(parsed->size(), 15U);
}

}  // namespace
}  // namespace tutti
