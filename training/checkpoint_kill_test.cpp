// Kills a program that saves a checkpoint at each of its system calls that change files, one run
// for each: what can be read afterwards is the checkpoint before or the new one, whole.
#include <csignal>
#include <cstdlib>
#include <set>
#include <string>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "training/checkpoint.hpp"
#include "training/flat_layout.hpp"
#include "training/test_model.hpp"

namespace tutti::training {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "TUTTI_TEST_KILLED_FOLDER";
constexpr int kRanks = 2;

float value(std::uint64_t step, ParameterId id, std::size_t i) {
  return static_cast<float>(step * 100'000 + id * 10'000 + i);
}

std::string owed_by(Rank rank) { return "owed_" + std::to_string(rank); }

void save(const fs::path& folder, std::uint64_t step) {
  run_ranks(kRanks, [&](Comm& comm) {
    const auto layout = *FlatLayout::create(model(), {{"all", {0, 1, 2}}}, kRanks);
    std::vector<std::vector<float>> memory;
    std::vector<OwnedPiece> owned;
    for (const Piece& piece : layout.pieces(0, comm.rank())) {
      std::vector<float> values(piece.count);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = value(step, piece.parameter, piece.begin + i);
      memory.push_back(std::move(values));
      owned.push_back({"parameter", piece.parameter, piece.begin, memory.back()});
    }
    // What a rank owes is of all parameters, and of some nothing.
    for (ParameterId id = 1; id < model().size(); ++id) {
      std::vector<float> values(model().elements(id));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = -value(step, id, i);
      memory.push_back(std::move(values));
      owned.push_back({owed_by(comm.rank()), id, 0, memory.back()});
    }
    const Status saved = save_checkpoint(folder, {step, {{"samples", step}}}, model(), owned, comm);
    ASSERT_TRUE(saved) << saved.error().what;
  });
}

bool changes_files(std::uint64_t number, const std::uint64_t* arguments) {
  switch (number) {
    case SYS_openat:
      return (arguments[2] & O_CREAT) != 0;
    case SYS_write:
      return arguments[0] > 2;
    case SYS_pwrite64:
    case SYS_writev:
    case SYS_pwritev:
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_mkdir:
    case SYS_mkdirat:
    case SYS_rename:
    case SYS_renameat:
    case SYS_renameat2:
    case SYS_unlink:
    case SYS_unlinkat:
    case SYS_rmdir:
    case SYS_ftruncate:
      return true;
    default:
      return false;
  }
}

enum class End { kKilled, kFinished, kNotTraced };

/// Runs it until its call number `last` that changes files, which it does not make.
End run_until(int last, const fs::path& folder) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv(kFolder, folder.c_str(), 1);
    ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1);  // which cannot look at what is traced
    const int null = ::open("/dev/null", O_WRONLY);
    ::dup2(null, 1);
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(77);
    ::raise(SIGSTOP);
    ::execl("/proc/self/exe", "saver",
            "--gtest_filter=Checkpoints.AreWholeWhereverTheSaverWasKilled", nullptr);
    ::_exit(78);
  }
  int status = 0;
  ::waitpid(child, &status, __WALL);
  if (!WIFSTOPPED(status)) return End::kNotTraced;
  constexpr long kOptions = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, kOptions);
  ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
  int calls = 0;
  while (true) {
    const pid_t thread = ::waitpid(-1, &status, __WALL);
    if (thread < 0) return End::kNotTraced;
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      if (thread != child) continue;
      EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << WEXITSTATUS(status);
      return WIFSIGNALED(status) ? End::kKilled : End::kFinished;
    }
    const int signal = WSTOPSIG(status);
    if (signal == (SIGTRAP | 0x80)) {
      __ptrace_syscall_info info = {};
      ::ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof(info), &info);
      if (info.op == PTRACE_SYSCALL_INFO_ENTRY && changes_files(info.entry.nr, info.entry.args) &&
          ++calls == last)
        ::kill(child, SIGKILL);
    }
    const bool is_own = signal == SIGTRAP || signal == (SIGTRAP | 0x80) || signal == SIGSTOP;
    ::ptrace(PTRACE_SYSCALL, thread, nullptr, is_own ? 0L : static_cast<long>(signal));
  }
}

/// The step that a reader finds, every element of which is as it was saved.
std::uint64_t step_in(const fs::path& folder) {
  const auto found = Checkpoint::open(folder);
  EXPECT_TRUE(found) << found.error().what;
  if (!found) return 0;
  const std::uint64_t step = found->manifest().step;
  for (ParameterId id = 0; id < model().size(); ++id) {
    std::vector<float> values(model().elements(id));
    const Status read = found->read("parameter", id, 0, values);
    EXPECT_TRUE(read) << read.error().what;
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], value(step, id, i));
    for (Rank rank = 0; rank < kRanks; ++rank) {
      EXPECT_TRUE(found->read(owed_by(rank), id, 0, values));
      for (std::size_t i = 0; i < values.size(); ++i)
        EXPECT_EQ(values[i], id == 0 ? 0 : -value(step, id, i));
    }
  }
  EXPECT_EQ(found->manifest().counters.at("samples"), step);
  return step;
}

TEST(Checkpoints, AreWholeWhereverTheSaverWasKilled) {
  if (const char* const saved = std::getenv(kFolder)) {  // this is the program that is killed
    save(saved, 2);
    return;
  }
  std::string name = ::testing::TempDir() + "tutti_killed_XXXXXX";
  const fs::path folder = ::mkdtemp(name.data());
  std::set<std::uint64_t> found;
  int calls = 0;
  for (End end = End::kKilled; end == End::kKilled;) {
    fs::remove_all(folder);
    save(folder, 1);
    end = run_until(++calls, folder);
    if (end == End::kNotTraced) GTEST_SKIP() << "processes cannot be traced here";
    found.insert(step_in(folder));
    if (end == End::kFinished) break;
    save(folder, 3);  // what was left over does not stand in the way of the next
    EXPECT_EQ(step_in(folder), 3U);
    ASSERT_LT(calls, 1000);
  }
  fs::remove_all(folder);
  EXPECT_EQ(found, (std::set<std::uint64_t>{1, 2}));
  RecordProperty("calls", calls - 1);
  EXPECT_GT(calls, 15) << "as many calls change files at least";
}

}  // namespace
}  // namespace tutti::training
