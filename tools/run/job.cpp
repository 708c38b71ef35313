#include "tools/run/job.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/result.hpp"
#include "tools/program/cli.hpp"
#include "tools/run/output.hpp"
#include "tutti/types.hpp"

namespace tutti::tools {
namespace {

constexpr std::array kForwarded = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

/// SIGCHLD and the forwarded signals, which come out of a pipe: their handlers write into it. So it
/// does not matter which thread the kernel hands a signal to, also where a profiler or a preloaded
/// library has threads of its own here. A signal that was ignored when this process started (nohup)
/// stays ignored. One at a time in a process.
class Signals {
 public:
  Signals() = default;
  ~Signals() {
    for (const auto& [signal, action] : before_) ::sigaction(signal, &action, nullptr);
    ::sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
    handlers_write_to = -1;
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  Status watch() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
      return system_error(Code::kUnavailable, errno, "cannot open a pipe for signals");
    read_ = Fd(fds[0]);
    write_ = Fd(fds[1]);
    handlers_write_to = write_.get();
    catch_signal(SIGCHLD);
    for (const int signal : kForwarded) {
      struct sigaction action{};
      ::sigaction(signal, nullptr, &action);
      if (action.sa_handler != SIG_IGN) catch_signal(signal);
    }
    catch_signal(SIGPIPE, SIG_IGN);  // a reader that left is a return value here
    ::sigprocmask(SIG_UNBLOCK, &caught_, &mask_before_);
    return ok_status();
  }

  [[nodiscard]] int fd() const { return read_.get(); }

  /// The next forwarded signal that arrived, 0 when there is none.
  [[nodiscard]] int next() const {
    unsigned char signal = 0;
    while (::read(read_.get(), &signal, sizeof signal) == sizeof signal)
      if (signal != SIGCHLD) return signal;
    return 0;
  }

  /// Around a fork, so that the child cannot lose one to a handler that it does not need.
  void hold() const { ::sigprocmask(SIG_BLOCK, &caught_, nullptr); }
  void go_on() const { ::sigprocmask(SIG_UNBLOCK, &caught_, nullptr); }

  /// In the child: as it was before watch().
  void leave() const {
    for (const auto& [signal, action] : before_) ::sigaction(signal, &action, nullptr);
    ::sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
  }

 private:
  static void tell(int signal) {
    const int error = errno;
    const auto byte = static_cast<unsigned char>(signal);
    // A full pipe wakes its reader as well.
    [[maybe_unused]] const ssize_t written = ::write(handlers_write_to, &byte, sizeof byte);
    errno = error;
  }
  void catch_signal(int signal, sighandler_t handler = tell) {
    struct sigaction action{};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    ::sigfillset(&action.sa_mask);
    before_.emplace_back();
    before_.back().first = signal;
    ::sigaction(signal, &action, &before_.back().second);
    ::sigaddset(&caught_, signal);
  }

  static inline volatile std::sig_atomic_t handlers_write_to = -1;
  std::vector<std::pair<int, struct sigaction>> before_;
  sigset_t caught_{};  ///< all bits 0: the empty set
  sigset_t mask_before_{};
  Fd read_, write_;
};

Result<std::string> fresh_key() {
  std::array<unsigned char, 32> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return system_error(Code::kUnavailable, errno, "getrandom for the job's key");
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

bool port_is_free(std::uint16_t port) {
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  address.sin_port = ::htons(port);
  return socket && ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

/// A port for rank 0 to listen on. Below the ephemeral range, so that no outgoing connection takes
/// it between this check and rank 0's bind.
Result<std::uint16_t> free_port() {
  constexpr int kTries = 64;
  std::random_device random;
  std::uniform_int_distribution<int> ports(20000, 32000);
  for (int i = 0; i < kTries; ++i) {
    const auto port = static_cast<std::uint16_t>(ports(random));
    if (port_is_free(port)) return port;
  }
  return make_error(Code::kUnavailable, "no free TCP port found on 127.0.0.1 in {} tries", kTries);
}

/// Each rank holds two pipes open here.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

struct Pipe {
  Fd read, write;
  static Result<Pipe> open() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0)
      return system_error(Code::kUnavailable, errno,
                          "cannot open a pipe for a rank's output; each rank takes 2 descriptors "
                          "here: start fewer ranks or raise the limit (ulimit -Hn)");
    return Pipe{Fd(fds[0]), Fd(fds[1])};
  }
};

/// What a rank's environment holds beyond this process's own.
class RankEnvironment {
 public:
  static Result<RankEnvironment> make(const JobOptions& options) {
    RankEnvironment environment;
    for (char** entry = environ; *entry != nullptr; ++entry) environment.inherit(*entry);
    TUTTI_ASSIGN(environment.shared_["TUTTI_JOB_KEY"], fresh_key());
    TUTTI_ASSIGN(const std::uint16_t port, free_port());
    environment.shared_["MASTER_ADDR"] = "127.0.0.1";
    environment.shared_["MASTER_PORT"] = std::to_string(port);
    environment.shared_["WORLD_SIZE"] = std::to_string(options.ranks);
    environment.shared_["LOCAL_WORLD_SIZE"] = std::to_string(options.ranks);
    if (!options.bootstrap.empty()) environment.shared_["TUTTI_BOOTSTRAP"] = options.bootstrap;
    // Set by torchrun for its own store, which this launcher does not have.
    environment.shared_.erase("TORCHELASTIC_USE_AGENT_STORE");
    return environment;
  }

  [[nodiscard]] std::vector<std::string> of(Rank rank) const {
    auto variables = shared_;
    variables["RANK"] = variables["LOCAL_RANK"] = std::to_string(rank);
    std::vector<std::string> entries;
    for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
    return entries;
  }

 private:
  void inherit(std::string_view entry) {
    const std::size_t equals = std::min(entry.find('='), entry.size());
    if (equals == entry.size()) return;
    shared_[std::string(entry.substr(0, equals))] = entry.substr(equals + 1);
  }
  std::map<std::string, std::string> shared_;
};

std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

struct Child {
  pid_t pid = -1;
  bool alive = false;
  int code = 128 + SIGKILL;  ///< once it ended
  std::unique_ptr<PrefixedStream> out, err;
};

/// What the forked child needs; all of it made before the fork.
struct ExecPlan {
  std::vector<char*> arguments;
  std::vector<char*> environment;
  const Signals* signals = nullptr;
  pid_t parent = 0;
  int standard_input = -1;
  int standard_output = -1;
  int standard_error = -1;
  int report = -1;  ///< errno of a failed exec goes here
};

[[noreturn]] void become(const ExecPlan& plan) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.parent) ::_exit(kExitOther);  // the launcher died before the prctl
  plan.signals->leave();
  ::dup2(plan.standard_input, STDIN_FILENO);
  ::dup2(plan.standard_output, STDOUT_FILENO);
  ::dup2(plan.standard_error, STDERR_FILENO);
  ::execvpe(plan.arguments[0], plan.arguments.data(), plan.environment.data());
  const int failure = errno;
  [[maybe_unused]] const ssize_t told = ::write(plan.report, &failure, sizeof failure);
  ::_exit(kExitEnvironment);
}

bool exited(const siginfo_t& info) { return info.si_code == CLD_EXITED; }

std::string describe_end(const siginfo_t& info) {
  if (exited(info)) return fmt::format("exited with status {}", info.si_status);
  return fmt::format("was ended by signal {} ({})", info.si_status,
                     ::strsignal(info.si_status));  // NOLINT(concurrency-mt-unsafe)
}

int exit_code_of(const siginfo_t& info) {
  return exited(info) ? info.si_status : 128 + info.si_status;
}

class Job {
 public:
  explicit Job(const JobOptions& options) : options_(options) {}
  ~Job() {
    if (alive_ > 0) signal_all(SIGKILL);
    for (const Child& child : children_)
      if (!abandoned_) ::waitpid(child.pid, nullptr, 0);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  Status start();
  JobEnd run();

 private:
  template <class... Args>
  void say(fmt::format_string<Args...> format, Args&&... args) const {
    note(fmt::format("{}: {}\n", options_.program,
                     fmt::format(format, std::forward<Args>(args)...)));
  }
  Status spawn(Rank rank, const RankEnvironment& environment);
  [[nodiscard]] std::string prefix_of(Rank rank) const;
  [[nodiscard]] int standard_input_of(Rank rank) const;

  void wait_for_something();
  void pump_output();
  void end_unheard(int failure);
  void handle_signals();
  void reap();
  void note_end(Rank rank, const siginfo_t& info);
  void check_deadlines();

  /// The first reason to end decides the exit code; SIGTERM now, SIGKILL after the grace.
  void end(int exit_code, int signal);
  void signal_all(int signal);
  [[nodiscard]] std::string living() const;

  const JobOptions& options_;
  Signals signals_;
  Fd null_input_;
  std::vector<Child> children_;
  std::int32_t alive_ = 0;
  Deadline timeout_ = Deadline::never();
  Deadline kill_at_ = Deadline::never();
  Deadline give_up_at_ = Deadline::never();
  std::optional<int> exit_code_;
  bool ending_ = false;
  bool interrupted_ = false;
  bool abandoned_ = false;  ///< ranks that not even SIGKILL ended: waiting for them could hang
};

Status Job::start() {
  TUTTI_TRY(signals_.watch());
  raise_descriptor_limit();
  null_input_ = Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  TUTTI_ASSIGN(const RankEnvironment environment, RankEnvironment::make(options_));
  for (Rank rank = 0; rank < options_.ranks; ++rank) TUTTI_TRY(spawn(rank, environment));
  if (options_.timeout > Nanos::zero()) timeout_ = Deadline::after(options_.timeout);
  return ok_status();
}

/// Rank 0 reads this process's input, unless that is a terminal, which only the foreground process
/// group may read.
int Job::standard_input_of(Rank rank) const {
  return rank == 0 && ::isatty(STDIN_FILENO) == 0 ? STDIN_FILENO : null_input_.get();
}

std::string Job::prefix_of(Rank rank) const {
  if (!options_.prefix) return "";
  const std::size_t width = std::to_string(options_.ranks - 1).size();
  return fmt::format("[{:>{}}] ", rank, width);
}

Status Job::spawn(Rank rank, const RankEnvironment& environment) {
  TUTTI_ASSIGN(Pipe out, Pipe::open());
  TUTTI_ASSIGN(Pipe err, Pipe::open());
  TUTTI_ASSIGN(Pipe report, Pipe::open());
  std::vector<std::string> arguments = options_.command;
  std::vector<std::string> variables = environment.of(rank);
  const ExecPlan plan{.arguments = pointers_to(arguments),
                      .environment = pointers_to(variables),
                      .signals = &signals_,
                      .parent = ::getpid(),
                      .standard_input = standard_input_of(rank),
                      .standard_output = options_.inherit_output ? STDOUT_FILENO : out.write.get(),
                      .standard_error = options_.inherit_output ? STDERR_FILENO : err.write.get(),
                      .report = report.write.get()};
  signals_.hold();
  const pid_t pid = ::fork();
  if (pid == 0) become(plan);
  const int failure_of_fork = errno;
  signals_.go_on();
  if (pid < 0)
    return system_error(Code::kUnavailable, failure_of_fork,
                        fmt::format("cannot start rank {}", rank));

  children_.push_back(
      {.pid = pid,
       .alive = true,
       .out = std::make_unique<PrefixedStream>(std::move(out.read), STDOUT_FILENO, prefix_of(rank)),
       .err =
           std::make_unique<PrefixedStream>(std::move(err.read), STDERR_FILENO, prefix_of(rank))});
  ++alive_;
  ::setpgid(pid, pid);  // here too: a signal may be due before the child runs
  report.write.reset();
  int failure = 0;
  if (::read(report.read.get(), &failure, sizeof failure) == sizeof failure)
    return system_error(Code::kUnavailable, failure,
                        fmt::format("cannot run '{}'", options_.command.front()));
  return ok_status();
}

JobEnd Job::run() {
  while (alive_ > 0 && !give_up_at_.passed()) {
    wait_for_something();
    pump_output();
    handle_signals();
    reap();
    check_deadlines();
  }
  abandoned_ = alive_ > 0;
  if (abandoned_) say("ranks {} could not be ended and are left behind", living());
  for (Child& child : children_) {
    child.out->finish();
    child.err->finish();
  }
  if (ending_) signal_all(SIGKILL);  // what the ranks themselves started
  std::vector<int> codes;
  for (const Child& child : children_) codes.push_back(child.code);
  return {exit_code_.value_or(kExitFine), interrupted_, std::move(codes)};
}

void Job::wait_for_something() {
  std::vector<pollfd> watched = {{signals_.fd(), POLLIN, 0}};
  for (const Child& child : children_)
    for (const auto* stream : {&child.out, &child.err})
      if ((*stream)->fd() >= 0) watched.push_back({(*stream)->fd(), POLLIN, 0});
  const TimePoint next = std::min({timeout_.when(), kill_at_.when(), give_up_at_.when()});
  const bool forever = next == TimePoint::max();
  constexpr int kLongestMs = 3'600'000;
  ::poll(watched.data(), watched.size(), forever ? -1 : Deadline::at(next).poll_ms(kLongestMs));
}

void Job::pump_output() {
  for (Child& child : children_)
    for (auto* stream : {&child.out, &child.err}) {
      if ((*stream)->fd() < 0) continue;
      const auto state = (*stream)->pump();
      if (state == PrefixedStream::State::kEnded) (*stream)->finish();
      if (state == PrefixedStream::State::kUnwritable && !ending_)
        end_unheard((*stream)->failure());
    }
}

void Job::end_unheard(int failure) {
  if (failure == EPIPE) {
    say("nobody reads the output any more; ending the job");
    return end(128 + SIGPIPE, SIGTERM);
  }
  say("{}; ending the job",
      system_error(Code::kUnavailable, failure, "cannot write the ranks' output").what);
  end(kExitEnvironment, SIGTERM);
}

void Job::handle_signals() {
  while (const int signal = signals_.next()) {
    if (ending_) {  // told twice: no more patience
      kill_at_ = Deadline::after(Nanos::zero());
      continue;
    }
    say("passing signal {} on to ranks {}", signal, living());
    interrupted_ = true;
    end(128 + signal, signal);
  }
}

/// Leaves ended ranks as zombies until the job is over: their process group ids cannot be taken by
/// strangers then, so that signal_all never hits one.
void Job::reap() {
  for (Rank rank = 0; rank < static_cast<Rank>(children_.size()); ++rank) {
    Child& child = children_[rank];
    siginfo_t info{};
    if (!child.alive || ::waitid(P_PID, child.pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid != child.pid)
      continue;
    child.alive = false;
    --alive_;
    note_end(rank, info);
  }
}

void Job::note_end(Rank rank, const siginfo_t& info) {
  const int code = exit_code_of(info);
  children_[rank].code = code;
  if (code == 0 || ending_) return;
  const std::string what =
      fmt::format("rank {} (pid {}) {}", rank, children_[rank].pid, describe_end(info));
  if (options_.keep_going || alive_ == 0) {
    if (!options_.ranks_explain || !exited(info)) say("{}", what);
    if (!exit_code_) exit_code_ = code;
    return;
  }
  say("{}; ending ranks {}", what, living());
  end(code, SIGTERM);
}

void Job::check_deadlines() {
  if (alive_ == 0) return;
  if (timeout_.passed() && !ending_) {
    say("the job did not end within {:g} s; ending ranks {}",
        std::chrono::duration<double>(options_.timeout).count(), living());
    end(kExitPeer, SIGTERM);
  }
  if (!kill_at_.passed()) return;
  say("ranks {} did not end when asked; killing them", living());
  signal_all(SIGKILL);
  kill_at_ = Deadline::never();
  give_up_at_ = Deadline::after(options_.grace + std::chrono::seconds(1));
}

void Job::end(int exit_code, int signal) {
  ending_ = true;
  timeout_ = Deadline::never();
  kill_at_ = Deadline::after(options_.grace);
  if (!exit_code_) exit_code_ = exit_code;
  signal_all(signal);
  signal_all(SIGCONT);  // a stopped process acts on its signals only once it goes on
}

/// To the process group of every rank: what a rank started ends with it.
void Job::signal_all(int signal) {
  for (const Child& child : children_) ::kill(-child.pid, signal);
}

std::string Job::living() const {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < static_cast<Rank>(children_.size()); ++rank)
    if (children_[rank].alive) ranks.push_back(rank);
  return fmt::format("{}", fmt::join(ranks, " "));
}

}  // namespace

Result<JobEnd> run_job(const JobOptions& options) {
  Job job(options);
  TUTTI_TRY(job.start());
  return job.run();
}

}  // namespace tutti::tools
