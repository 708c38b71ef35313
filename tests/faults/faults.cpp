#include "tests/faults/faults.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

#include <sys/prctl.h>
#include <sys/wait.h>

namespace tutti::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;

/// What the library might have left in the places for such things.
std::set<std::string> files() {
  std::set<std::string> found;
  for (const char* folder : {"/dev/shm", "/tmp"}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (entry.path().filename().string().find("tutti") != std::string::npos)
        found.insert(entry.path());
  }
  return found;
}

std::string contents(const char* path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string comma_separated(const Ranks& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ",") + std::to_string(rank);
  return text;
}

std::pair<int, int> descriptors_and_threads(const Answer& census) {
  std::istringstream in(census.text);
  std::pair<int, int> counts;
  in >> counts.first >> counts.second;
  return counts;
}

}  // namespace

::testing::Matcher<std::string> names_one_of(const Ranks& culprits) {
  std::vector<::testing::Matcher<std::string>> names;
  for (const int rank : culprits) {
    names.emplace_back(HasSubstr("rank " + std::to_string(rank)));
    names.emplace_back(HasSubstr("never came: " + std::to_string(rank)));
  }
  return ::testing::AnyOfArray(names);
}

void FaultsOver::SetUp() {
  std::signal(SIGPIPE, SIG_IGN);       // commands to ranks that have ended
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // what ranks leave running becomes a child of this process
  files_before_ = files();
}

Variables FaultsOver::variables_for(Variables variables) const {
  const std::string over = GetParam();
  variables.emplace("TUTTI_SHM", over == "tcp" ? "0" : "1");
  if (over == "mapped") variables.emplace("FAULT_RANK_MEMORY", "mapped");
  variables.emplace("TUTTI_DEBUG", "NONE");
  variables.emplace("TUTTI_INIT_TIMEOUT", "10");
  return variables;
}

void FaultsOver::start(const std::vector<Place>& places, Variables variables) {
  job_ = std::make_unique<Job>(places, variables_for(std::move(variables)));
}

void FaultsOver::form(const std::vector<Place>& places, Variables variables) {
  start(places, std::move(variables));
  for (const Answer& answer : job_->init()) ASSERT_TRUE(answer.ok()) << answer;
  for (const Answer& answer : job_->ask(job_->all(), "reduce 1000")) ASSERT_TRUE(answer.ok());
  for (const Answer& answer : job_->ask(job_->all(), "destroy")) ASSERT_TRUE(answer.ok()) << answer;
  settle(job_->all());
  before_.clear();
  for (const Answer& answer : job_->ask(job_->all(), "census"))
    before_.push_back(descriptors_and_threads(answer));
  for (const Answer& answer : job_->init()) ASSERT_TRUE(answer.ok()) << answer;
  remember_sockets();
}

void FaultsOver::remember_sockets() {
  for (const int rank : job_->all()) sockets_.merge((*job_)[rank].sockets());
}

void FaultsOver::enter_operations(const Ranks& ranks, const std::string& command) {
  job_->tell(ranks, command + " " + std::to_string(kLarge));
  for (const int rank : ranks)
    ASSERT_TRUE((*job_)[rank].says("looping")) << "rank " << rank << " did not begin";
}

void FaultsOver::kill(int rank) {
  (*job_)[rank].signal(SIGKILL);
  (*job_)[rank].wait();
}

void FaultsOver::expect_remote_error(const Ranks& survivors, const Ranks& culprits, TimePoint fault,
                                     const Window& window, const std::string& command) {
  for (const int rank : survivors) {
    const Answer answer = (*job_)[rank].hear(command, window.to + Seconds(2));
    const Seconds after = answer.when - fault;
    SCOPED_TRACE(::testing::Message()
                 << "rank " << rank << ", " << after.count() << " s after the fault: " << answer);
    EXPECT_EQ(answer.result, ncclRemoteError);
    EXPECT_THAT(answer.text, names_one_of(culprits));
    EXPECT_GE(after, window.from);
    EXPECT_LE(after, window.to);
  }
}

void FaultsOver::expect_ended(const Ranks& survivors, const Ranks& culprits) {
  for (const Answer& answer : job_->ask(survivors, "reduce 10"))
    EXPECT_EQ(answer.result, ncclRemoteError) << answer;
  std::vector<std::string> names;
  for (const int rank : culprits) names.push_back(std::to_string(rank));
  for (const Answer& answer : job_->ask(survivors, "failed"))
    EXPECT_THAT(names, ::testing::Contains(answer.text)) << "a wrong rank is blamed";
}

void FaultsOver::expect_shrunk_works(const Ranks& survivors, const Ranks& excluded) {
  for (const Answer& answer : job_->ask(survivors, "shrink " + comma_separated(excluded)))
    EXPECT_TRUE(answer.ok()) << answer;
  for (const int count : {1, 1003, 300'007})
    for (const Answer& answer : job_->ask(survivors, "reduce " + std::to_string(count)))
      EXPECT_TRUE(answer.ok()) << answer;
  for (const Answer& answer : job_->ask(survivors, "destroy")) EXPECT_TRUE(answer.ok()) << answer;
}

// What a slower peer might still read is freed when the next communicator is made.
void FaultsOver::settle(const Ranks& ranks) {
  for (const int rank : ranks) {
    RankProcess& process = (*job_)[rank];
    EXPECT_TRUE(process.ask("init " + process.ask("id").text + " 1 0").ok());
    EXPECT_TRUE(process.ask("destroy").ok());
  }
}

void FaultsOver::expect_no_leak(const Ranks& survivors) {
  settle(survivors);
  for (const int rank : survivors) {
    Answer census;
    const bool returned = eventually(
        [&] {
          census = (*job_)[rank].ask("census");
          const auto now = descriptors_and_threads(census);
          return now.first <= before_[rank].first && now.second <= before_[rank].second;
        },
        Seconds(2 * kSlack));
    EXPECT_TRUE(returned) << "rank " << rank << " had " << before_[rank].first
                          << " descriptors and " << before_[rank].second << " threads, and has "
                          << census.text;
  }
}

void FaultsOver::expect_survival(const Ranks& culprits, TimePoint fault, const Window& window) {
  const Ranks survivors = job_->all_but(culprits);
  expect_remote_error(survivors, culprits, fault, window);
  expect_ended(survivors, culprits);
  expect_shrunk_works(survivors, culprits);
  expect_no_leak(survivors);
}

void FaultsOver::expect_nothing_left() {
  for (const int rank : job_->all()) {
    const int code = (*job_)[rank].exit();
    EXPECT_TRUE(code == 0 || code == 1000 + SIGKILL) << "rank " << rank << " ended with " << code;
  }
  job_.reset();
  EXPECT_TRUE(::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD) << "a process is left";
  std::istringstream table(contents("/proc/net/unix"));
  for (std::string line; std::getline(table, line);) {
    std::istringstream row(line);
    std::string address, references, protocol, flags, type, state, inode;
    row >> address >> references >> protocol >> flags >> type >> state >> inode;
    EXPECT_FALSE(sockets_.contains(inode)) << "a socket is left: " << line;
  }
  // Other programs' files of such names may come and go.
  EXPECT_TRUE(eventually([&] { return std::ranges::includes(files_before_, files()); },
                         Seconds(2 * kSlack)))
      << "files are left: " << ::testing::PrintToString(files());
}

}  // namespace tutti::testing
