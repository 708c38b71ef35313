// Collectives that run the schedule of a file, and files that no communicator runs.
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include "algorithms/algorithms.hpp"
#include "src/exchange/msccl_xml.hpp"
#include "src/ir/text.hpp"
#include "tests/collectives/cases.hpp"
#include "tests/collectives/ranks.hpp"

namespace tutti {
namespace {

using ::testing::AllOf;
using testing::call_of;
using testing::Case;
using testing::cases_of;
using ::testing::HasSubstr;
using testing::make_test_runtimes;
using testing::Placement;
using testing::run_cases;
using testing::run_ranks;
using testing::Runtimes;
using ::testing::StartsWith;

constexpr std::int32_t kRanks = 4;
constexpr const char* kName = "schedule.xml";

/// A folder for files, gone with the test; each rank may have its own in it.
class Imported : public ::testing::Test {
 protected:
  Imported() { std::filesystem::create_directories(folder_); }
  ~Imported() override { std::filesystem::remove_all(folder_); }

  /// The value of TUTTI_ALGO that names it.
  std::string file_of(const std::string& text, const std::string& folder = "") {
    std::filesystem::create_directories(folder_ / folder);
    const std::filesystem::path path = folder_ / folder / kName;
    std::ofstream(path) << text;
    return "file:" + path.string();
  }

  /// What each rank is told whose communicator does not come about, when it runs in the folder that
  /// has its number and TUTTI_ALGO is a name relative to that.
  std::vector<std::string> errors_in_own_folders() {
    const Runtimes runtimes =
        make_test_runtimes(Placement::kProcesses, kRanks, {{"ALGO", std::string("file:") + kName}});
    return errors_of(runtimes, [&](Rank rank) {
      const std::filesystem::path own = folder_ / std::to_string(rank);
      std::filesystem::create_directories(own);
      ASSERT_EQ(::unshare(CLONE_FS), 0);  // from here on the folder is this thread's alone
      ASSERT_EQ(::chdir(own.c_str()), 0);
    });
  }

  static std::vector<std::string> errors_of(
      const Runtimes& runtimes, const std::function<void(Rank)>& prepare = [](Rank) {}) {
    const auto ranks = static_cast<Rank>(runtimes.size());
    auto group = in_process_group(ranks);
    std::vector<std::string> errors(runtimes.size());
    std::vector<std::thread> threads;
    for (Rank rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        prepare(rank);
        const auto made = Communicator::create(runtimes[rank], std::move(group[rank]), {},
                                               Deadline::after(std::chrono::seconds(30)));
        errors[rank] = made ? "none" : made.error().what;
      });
    for (std::thread& thread : threads) thread.join();
    return errors;
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / fmt::format("tutti_imported_{}", ::getpid());
};

ir::Schedule ring_of(const ir::Request& request) { return *algorithms::ring().generate(request); }

std::string written_ring(bool in_place) {
  return *exchange::write_msccl_xml(ring_of({Collective::kAllReduce, kRanks, 0, in_place}));
}

/// In place in the input alone, one thread block a gpu, as people write it.
std::string ring_by_hand() {
  std::string text = fmt::format(
      "<algo name='by hand' proto='Simple' nchannels='1' nchunksperloop='{0}' ngpus='{0}' "
      "coll='allreduce' inplace='1' outofplace='0' minBytes='0' maxBytes='0'>\n",
      kRanks);
  for (int gpu = 0; gpu < kRanks; ++gpu) {
    text += fmt::format("<gpu id='{}' i_chunks='{}' o_chunks='0' s_chunks='0'>\n", gpu, kRanks);
    text += fmt::format("<tb id='0' send='{}' recv='{}' chan='0'>\n", (gpu + 1) % kRanks,
                        (gpu + kRanks - 1) % kRanks);
    int step = 0;
    const auto add = [&](const char* type, int chunk) {
      text += fmt::format(
          "<step s='{0}' type='{1}' srcbuf='i' srcoff='{2}' dstbuf='i' dstoff='{2}' cnt='1' "
          "depid='-1' deps='-1' hasdep='0'/>\n",
          step++, type, (chunk + kRanks) % kRanks);
    };
    for (int hop = 0; hop < 2 * (kRanks - 1); ++hop) {
      add("s", gpu - hop + kRanks);
      add(hop < kRanks - 1 ? "rrc" : "r", gpu - hop - 1 + kRanks);
    }
    text += "</tb>\n</gpu>\n";
  }
  return text + "</algo>\n";
}

std::string algorithm_of(Communicator& communicator, Collective collective) {
  Call call;
  call.collective = collective;
  call.count = 9001;
  const auto name = communicator.algorithm_for(call);
  return name ? *name : name.error().what;
}

/// All collectives of four ranks, in place on all ranks, on some and on none.
std::vector<Case> all_cases() {
  auto cases = cases_of(kRanks, {0, 1, 9001}, {DataType::kFloat32, DataType::kUint8});
  for (const std::size_t count : {0, 1, 9001})
    for (const std::uint32_t in_place_ranks : {0U, 0b0101U, ~0U})
      cases.push_back({{Collective::kAllReduce, kRanks, 0, in_place_ranks != 0},
                       count,
                       DataType::kFloat32,
                       ReduceOp::kSum,
                       in_place_ranks});
  return cases;
}

/// The file runs every all-reduce, and nothing else; all results are right.
void expect_runs(const std::string& algorithm) {
  for (const Placement placement : {Placement::kThreads, Placement::kProcesses, Placement::kMixed})
    run_ranks(make_test_runtimes(placement, kRanks, {{"ALGO", algorithm}}),
              [](Communicator& communicator) {
                EXPECT_THAT(algorithm_of(communicator, Collective::kAllReduce),
                            StartsWith(std::string(kName) + "#"));
                EXPECT_EQ(algorithm_of(communicator, Collective::kScatter), "direct");
                run_cases(communicator, all_cases());
              });
}

TEST_F(Imported, RingOutOfPlaceServesAllCalls) { expect_runs(file_of(written_ring(false))); }

TEST_F(Imported, RingInPlaceServesAllCalls) { expect_runs(file_of(written_ring(true))); }

TEST_F(Imported, RingByHandServesAllCalls) { expect_runs(file_of(ring_by_hand())); }

TEST_F(Imported, ScheduleOfOursWithARootServesThatRootAlone) {
  const std::string text = ir::print(ring_of({Collective::kBroadcast, kRanks, 2, false}));
  run_ranks(make_test_runtimes(Placement::kThreads, kRanks, {{"ALGO", file_of(text)}}),
            [](Communicator& communicator) {
              Call call;
              call.collective = Collective::kBroadcast;
              call.root = 2;
              EXPECT_THAT(*communicator.algorithm_for(call), StartsWith(kName));
              call.root = 1;
              EXPECT_EQ(communicator.algorithm_for(call)->find('#'), std::string::npos);
              run_cases(communicator, all_cases());
            });
}

TEST_F(Imported, FilesOfOneNameAndOtherContentsShareNoProgramInAProcess) {
  const std::string path = file_of(written_ring(false));
  const Runtimes runtimes = make_test_runtimes(Placement::kThreads, kRanks, {{"ALGO", path}});
  std::vector<std::string> names;
  for (const std::string& text : {written_ring(false), ring_by_hand()}) {
    file_of(text);
    run_ranks(runtimes, [&](Communicator& communicator) {
      if (communicator.rank() == 0)
        names.push_back(algorithm_of(communicator, Collective::kAllReduce));
      run_cases(communicator, all_cases());
    });
  }
  ASSERT_EQ(names.size(), 2U);
  EXPECT_NE(names[0], names[1]);
}

TEST_F(Imported, FileForMoreRanksThanAPartHasIsLeftAlone) {
  const Runtimes runtimes =
      make_test_runtimes(Placement::kThreads, kRanks, {{"ALGO", file_of(written_ring(false))}});
  run_ranks(runtimes, [](Communicator& communicator) {
    const auto half = communicator.split(communicator.rank() / 2, 0, {},
                                         Deadline::after(std::chrono::seconds(30)));
    ASSERT_TRUE(half) << half.error().what;
    EXPECT_EQ(algorithm_of(**half, Collective::kAllReduce).find('#'), std::string::npos);
    std::vector<float> data(10, 1);
    ASSERT_TRUE((*half)->run(call_of(Collective::kAllReduce, data)));
    EXPECT_EQ(data, std::vector<float>(10, 2));
  });
}

TEST_F(Imported, FileForAnotherNumberOfRanksIsRefused) {
  const Runtimes runtimes =
      make_test_runtimes(Placement::kThreads, 2, {{"ALGO", file_of(written_ring(false))}});
  for (const std::string& error : errors_of(runtimes))
    EXPECT_THAT(error, AllOf(HasSubstr(kName), HasSubstr("is for 4 ranks"), HasSubstr("has 2")));
}

TEST_F(Imported, OtherContentsOnTwoRanksAreToldToAll) {
  for (Rank rank = 0; rank < kRanks; ++rank)
    file_of(rank % 2 == 0 ? written_ring(false) : ring_by_hand(), std::to_string(rank));
  for (const std::string& error : errors_in_own_folders())
    EXPECT_EQ(error,
              "TUTTI_ALGO: 'schedule.xml' has other contents on the ranks 1, 3 than on rank 0; "
              "give all ranks the same file");
}

TEST_F(Imported, FileThatOneRankLacksIsToldToAll) {
  for (const Rank rank : {0, 1, 3}) file_of(ring_by_hand(), std::to_string(rank));
  for (const std::string& error : errors_in_own_folders())
    EXPECT_THAT(error, AllOf(StartsWith("rank 2: "), HasSubstr(kName), HasSubstr("No such file")));
}

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

TEST_F(Imported, FileThatProvesWrongIsRefusedWithThePlace) {
  const std::string wrong = replaced(ring_by_hand(), "type='rrc' srcbuf='i' srcoff='3'",
                                     "type='r' srcbuf='i' srcoff='3'");
  const Runtimes runtimes =
      make_test_runtimes(Placement::kProcesses, kRanks, {{"ALGO", file_of(wrong)}});
  for (const std::string& error : errors_of(runtimes))
    EXPECT_THAT(error,
                AllOf(HasSubstr(kName), HasSubstr("rank"), HasSubstr("`tutti algo verify`")));
}

TEST_F(Imported, FileThatIsNoScheduleIsRefusedWithThePlace) {
  const Runtimes runtimes = make_test_runtimes(
      Placement::kThreads, kRanks, {{"ALGO", file_of("tutti-schedule 1\ncollective dance\n")}});
  for (const std::string& error : errors_of(runtimes))
    EXPECT_THAT(error, AllOf(HasSubstr(kName), HasSubstr("line 2"), HasSubstr("dance")));
}

}  // namespace
}  // namespace tutti
