// What `tutti dropin --check` concludes from events.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/dropin/report.hpp"
#include "tools/program/cli.hpp"

namespace tutti::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kOurs = "/opt/tutti/libnccl.so.2";

Checked checked(std::string_view events, int status = 0) {
  const auto processes = parse_events(events);
  return {.command = {"./train"},
          .status = status,
          .processes = processes.size(),
          .users = nccl_users(processes),
          .our_library = kOurs};
}

std::string object(std::string_view path, std::string_view requester, std::string_view found_by,
                   std::string_view rpath = "", std::string_view runpath = "",
                   std::string_view tutti = "") {
  const std::string_view soname = path.substr(path.rfind('/') + 1);
  return fmt::format("7\tobject\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n", path, requester, found_by, soname,
                     rpath, runpath, tutti);
}

const std::string kStart = "7\tstart\t/bin/train\n";
const std::string kNeedsAllReduce = "7\tneed\t/bin/train\tncclAllReduce\tlinked\n";

TEST(CallStates, AreThoseOfTheListThatTheLibraryIsMadeFrom) {
  EXPECT_EQ(call_state("ncclAllReduce"), CallState::kNative);
  EXPECT_EQ(call_state("pncclAllReduce"), CallState::kNative);
  EXPECT_EQ(call_state("ncclDevCommCreate"), CallState::kRefused);
  EXPECT_EQ(call_state("ncclOfTomorrow"), CallState::kMissing);
}

TEST(CallNames, InAFileAreWholeStringsThatLookLikeCalls) {
  using namespace std::string_view_literals;
  EXPECT_THAT(nccl_names_in("ncclSend\0xncclRecv\0pncclBcast\0libnccl.so\0ncclReduce"sv),
              ElementsAre("ncclSend", "pncclBcast"));
}

TEST(Events, BeginAnewWithEachExec) {
  const auto processes =
      parse_events("7\tstart\t/bin/sh\n7\tstart\t/bin/train\n" + kNeedsAllReduce);
  ASSERT_THAT(processes, SizeIs(2));
  EXPECT_THAT(processes[0].uses, IsEmpty());
  EXPECT_EQ(processes[1].program, "/bin/train");
  EXPECT_THAT(processes[1].uses, SizeIs(1));
}

TEST(Events, OfAForkedProcessSeeWhatItsParentMapped) {
  const Checked result =
      checked(kStart + object(kOurs, "/bin/train", "path", "", "", "tutti") +
              "8\tfork\t7\n8\tbind\t/bin/train\t" + kOurs + "\tncclSend\tlinked\n");
  ASSERT_THAT(result.users, SizeIs(2));
  EXPECT_THAT(result.users[1].pids, ElementsAre(8));
  ASSERT_THAT(result.users[1].libraries, SizeIs(1));
  EXPECT_TRUE(result.users[1].libraries[0].is_tutti);
}

TEST(Events, LeaveOutLinesThatAreNone) {
  EXPECT_THAT(parse_events("\n7\nx\tstart\t/bin/a\n9\tobject\t/bin/a\n8\tfork\t7\n"), IsEmpty());
}

TEST(Users, AreNotTheShellsThatAPreloadReaches) {
  EXPECT_THAT(checked(kStart + object(kOurs, "/bin/train", "LD_PRELOAD")).users, IsEmpty());
}

TEST(Users, ThatAreAlikeAreOne) {
  const std::string eight = "8\tstart\t/bin/train\n8\tneed\t/bin/train\tncclAllReduce\tlinked\n";
  const Checked result = checked(kStart + kNeedsAllReduce + eight);
  ASSERT_THAT(result.users, SizeIs(1));
  EXPECT_THAT(result.users[0].pids, ElementsAre(7, 8));
}

TEST(Users, OweALibraryToTheRpathOfAnAncestor) {
  const Checked result =
      checked(kStart + object("/bin/train", "", "program", "/nv") +
              object("/lib/libtorch.so", "/bin/train", "default") +
              object("/nv/libnccl.so.2", "/lib/libtorch.so", "RPATH") + kNeedsAllReduce);
  ASSERT_THAT(result.users, SizeIs(1));
  EXPECT_EQ(describe_found(result.users[0].libraries[0]), "DT_RPATH of /bin/train");
  EXPECT_THAT(judge(result).advice,
              HasSubstr("/bin/train has DT_RPATH, which goes before LD_LIBRARY_PATH"));
}

TEST(Users, OweALibraryToTheRunpathOfWhoNeedsIt) {
  const Checked result =
      checked(kStart + object("/bin/train", "", "program", "/void", "/nv") +
              object("/nv/libnccl.so.2", "/bin/train", "RPATH") + kNeedsAllReduce);
  ASSERT_THAT(result.users, SizeIs(1));
  EXPECT_EQ(describe_found(result.users[0].libraries[0]), "DT_RUNPATH of /bin/train");
  EXPECT_THAT(judge(result).advice, HasSubstr("put /opt/tutti first in LD_LIBRARY_PATH"));
}

TEST(Verdicts, AMissingCallGoesBeforeTheStatusOfTheProgram) {
  const Checked result =
      checked(kStart + "7\tneed\t/bin/train\tncclOfTomorrow\tlinked\n", /*status=*/1);
  EXPECT_EQ(judge(result).code, kExitWrongData);
  EXPECT_THAT(judge(result).advice, HasSubstr("ncclOfTomorrow"));
}

TEST(Verdicts, AWeakSymbolMayBeMissing) {
  const Checked result = checked(kStart + object(kOurs, "/bin/train", "default", "", "", "tutti") +
                                 "7\tneed\t/bin/train\tncclOfTomorrow\tweak\n");
  EXPECT_EQ(judge(result).code, kExitFine);
  EXPECT_EQ(result.users[0].calls[0].need, Need::kWeak);
}

TEST(Verdicts, NoLibraryIsTheEnvironmentsFault) {
  EXPECT_EQ(judge(checked("")).code, kExitEnvironment);
  EXPECT_EQ(judge(checked(kStart)).code, kExitEnvironment);
  const Checked sought = checked(kStart + "7\tsearch\tlibnccl.so.2\n");
  EXPECT_EQ(judge(sought).code, kExitEnvironment);
  EXPECT_THAT(judge(sought).advice, HasSubstr("no libnccl was found"));
}

TEST(Verdicts, OtherwiseTheStatusIsTheProgramsOwn) {
  const Checked result = checked(
      kStart + object(kOurs, "/bin/train", "default", "", "", "tutti") + kNeedsAllReduce, 9);
  EXPECT_EQ(judge(result).code, 9);
  EXPECT_THAT(judge(result).advice, HasSubstr("Tutti is in NCCL's place"));
}

TEST(Verdicts, ALibraryThatNoCallIsBoundToDoesNotCount) {
  const Checked result =
      checked(kStart + object(kOurs, "/bin/train", "LD_PRELOAD", "", "", "tutti") +
              object("/nv/libnccl.so.2", "/bin/train", "path") + "7\tbind\t/bin/train\t" + kOurs +
              "\tncclSend\tdlsym\n");
  const Verdict verdict = judge(result);
  EXPECT_THAT(verdict.advice, HasSubstr("Tutti is in NCCL's place"));
  EXPECT_THAT(report_text(result, verdict),
              HasSubstr("/nv/libnccl.so.2: not Tutti's, found by its path, which the program gave; "
                        "no call is bound to it"));
}

TEST(Verdicts, ALibraryOpenedByItsPathForDlsymIsBeyondTheLinkersVariables) {
  const Checked result = checked(kStart + object("/nv/libnccl.so.2", "/bin/train", "path") +
                                 "7\tbind\t/bin/train\t/nv/libnccl.so.2\tncclSend\tdlsym\n");
  EXPECT_THAT(judge(result).advice, HasSubstr("no variable of the linker changes that"));
}

}  // namespace
}  // namespace tutti::tools
