#include "tests/faults/job.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>
#include <string_view>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tutti::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kNoSuchPlace = 120;

Deadline within(Seconds patience) {
  return Deadline::after(std::chrono::duration_cast<Nanos>(patience));
}

/// In the child, between fork and exec.
bool mount_private_shm(const std::string& size) {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", "/dev/shm", "tmpfs", 0, size.c_str()) == 0;
}

bool enter_network(const std::string& host) {
  const Fd network(::open(("/run/netns/" + host).c_str(), O_RDONLY | O_CLOEXEC));
  return network && ::setns(network.get(), CLONE_NEWNET) == 0;
}

std::vector<std::string> merged_environment(const Variables& variables, const Place& place) {
  Variables all = variables;
  if (!place.host.empty()) all.emplace("TUTTI_HOSTID", place.host);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    const std::string name(text.substr(0, equals));
    if (name.starts_with("TUTTI_") || name.starts_with("NCCL_")) continue;  // the test's alone
    all.emplace(name, text.substr(equals + 1));
  }
  std::vector<std::string> merged;
  for (const auto& [name, value] : all) merged.push_back(name + "=" + value);
  return merged;
}

/// "socket:[123]" as "123"; empty for anything else.
std::string socket_inode(const fs::path& descriptor) {
  std::error_code gone;
  const std::string target = fs::read_symlink(descriptor, gone).string();
  constexpr std::string_view kPrefix = "socket:[";
  if (!target.starts_with(kPrefix)) return {};
  return target.substr(kPrefix.size(), target.size() - kPrefix.size() - 1);
}

bool is_connected_stream(int socket) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  int type = 0;
  socklen_t type_size = sizeof type;
  return ::getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &type_size) == 0 && type == SOCK_STREAM &&
         ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Answer& answer) {
  return out << "result " << answer.result << " after " << answer.milliseconds
             << " ms: " << answer.text;
}

// ---- RankProcess

RankProcess::RankProcess(const Variables& variables, const Place& place) {
  std::array<int, 2> in{}, out{};
  if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0) std::abort();
  const std::vector<std::string> environment = merged_environment(variables, place);
  std::vector<char*> environment_pointers;
  for (const std::string& entry : environment)
    environment_pointers.push_back(const_cast<char*>(entry.c_str()));
  environment_pointers.push_back(nullptr);
  const std::string shm_size = "size=" + std::to_string(place.private_shm_bytes);
  std::string program = FAULT_RANK;
  std::array<char*, 2> arguments{program.data(), nullptr};
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (place.private_shm_bytes > 0 && !mount_private_shm(shm_size)) ::_exit(kNoSuchPlace);
    if (!place.host.empty() && !enter_network(place.host)) ::_exit(kNoSuchPlace);
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::execve(arguments[0], arguments.data(), environment_pointers.data());
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  to_ = Fd(in[1]);
  from_ = Fd(out[0]);
}

RankProcess::~RankProcess() {
  if (ended_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void RankProcess::tell(const std::string& command) {
  const std::string line = command + "\n";
  [[maybe_unused]] const ssize_t n = ::write(to_.get(), line.data(), line.size());
}

bool RankProcess::read_line(std::string& line, Deadline deadline) {
  for (;;) {
    if (const std::size_t end = unread_.find('\n'); end != std::string::npos) {
      line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return true;
    }
    pollfd readable{from_.get(), POLLIN, 0};
    if (::poll(&readable, 1, deadline.poll_ms(1000)) == 0 && deadline.passed()) return false;
    if (readable.revents == 0) continue;
    std::array<char, 4096> buffer;
    const ssize_t got = ::read(from_.get(), buffer.data(), buffer.size());
    if (got <= 0) return false;
    unread_.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

Answer RankProcess::hear(const std::string& command, Seconds patience) {
  const std::string wanted = command.substr(0, command.find(' '));
  Answer answer;
  std::string line, name;
  if (!read_line(line, within(patience))) {
    ADD_FAILURE() << "process " << pid_ << " did not answer '" << command << "' within "
                  << patience.count() << " s; it " << how_it_fares();
    return answer;
  }
  answer.when = Clock::now();
  std::istringstream in(line);
  in >> name >> answer.result >> answer.milliseconds;
  std::getline(in >> std::ws, answer.text);
  EXPECT_EQ(name, wanted) << line;
  return answer;
}

std::string RankProcess::how_it_fares() {
  constexpr int kStillRuns = 2000;
  const int code = wait(Seconds(1));
  if (code == kStillRuns) return "still runs";
  return code > 1000 ? "ended by signal " + std::to_string(code - 1000)
                     : "exited with " + std::to_string(code);
}

Answer RankProcess::ask(const std::string& command, Seconds patience) {
  tell(command);
  return hear(command, patience);
}

bool RankProcess::says(const std::string& word, Seconds patience) {
  std::string line;
  return read_line(line, within(patience)) && line == word;
}

void RankProcess::signal(int number) const { ::kill(pid_, number); }

int RankProcess::wait(Seconds patience) {
  if (ended_) return exit_code_;
  const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  pollfd end{process.get(), POLLIN, 0};
  const Deadline deadline = within(patience);
  while (::poll(&end, 1, deadline.poll_ms(1000)) == 0)
    if (deadline.passed()) return 2000;
  int status = 0;
  ::waitpid(pid_, &status, 0);
  ended_ = true;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  return exit_code_;
}

int RankProcess::exit() {
  tell("exit");
  return wait();
}

std::set<std::string> RankProcess::sockets() const {
  std::set<std::string> inodes;
  for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(pid_) + "/fd"))
    if (std::string inode = socket_inode(entry.path()); !inode.empty())
      inodes.insert(std::move(inode));
  return inodes;
}

std::vector<Fd> RankProcess::borrow_connections() const {
  constexpr long kPidfdGetfd = 438;  // the same on all architectures; glibc 2.34 may lack the name
  std::vector<Fd> connections;
  const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(pid_) + "/fd")) {
    if (socket_inode(entry.path()).empty()) continue;
    const int theirs = std::stoi(entry.path().filename());
    Fd ours(static_cast<int>(::syscall(kPidfdGetfd, process.get(), theirs, 0)));
    if (ours && is_connected_stream(ours.get())) connections.push_back(std::move(ours));
  }
  return connections;
}

std::vector<int> RankProcess::listening_ports() const {
  constexpr std::string_view kListening = "0A";
  const std::set<std::string> own = sockets();
  std::vector<int> ports;
  std::ifstream table("/proc/net/tcp");
  std::string line;
  while (std::getline(table, line)) {
    std::istringstream row(line);
    std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
    row >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >>
        inode;
    if (state == kListening && own.contains(inode))
      ports.push_back(std::stoi(local.substr(local.find(':') + 1), nullptr, 16));
  }
  return ports;
}

// ---- Job

Job::Job(const std::vector<Place>& places, const Variables& variables) {
  for (const Place& place : places)
    ranks_.push_back(std::make_unique<RankProcess>(variables, place));
}

Ranks Job::all() const { return all_but({}); }

Ranks Job::all_but(const Ranks& some) const {
  Ranks others;
  for (int rank = 0; rank < size(); ++rank)
    if (std::ranges::find(some, rank) == some.end()) others.push_back(rank);
  return others;
}

void Job::tell(const Ranks& ranks, const std::string& command) {
  for (const int rank : ranks) ranks_[rank]->tell(command);
}

std::vector<Answer> Job::hear(const Ranks& ranks, const std::string& command, Seconds patience) {
  std::vector<Answer> answers;
  for (const int rank : ranks) answers.push_back(ranks_[rank]->hear(command, patience));
  return answers;
}

std::vector<Answer> Job::ask(const Ranks& ranks, const std::string& command, Seconds patience) {
  tell(ranks, command);
  return hear(ranks, command, patience);
}

std::string Job::fresh_id(int rank) { return ranks_[rank]->ask("id").text; }

void Job::tell_init(const Ranks& ranks, const std::string& id) {
  for (const int rank : ranks)
    ranks_[rank]->tell("init " + id + " " + std::to_string(size()) + " " + std::to_string(rank));
}

std::vector<Answer> Job::init() {
  tell_init(all(), fresh_id());
  return hear(all(), "init");
}

}  // namespace tutti::testing
