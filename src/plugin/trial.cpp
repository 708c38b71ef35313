#include "src/plugin/trial.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/fd.hpp"
#include "src/base/log.hpp"
#include "src/base/result.hpp"

namespace tutti::plugin {
namespace {

constexpr char kThrough = 'k';

/// What the child does, and never returns.
[[noreturn]] void live_and_die(const std::function<void()>& body, int pipe, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGTRAP, SIGTERM, SIGINT})
    ::signal(signal, SIG_DFL);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  body();
  const ssize_t written = ::write(pipe, &kThrough, 1);
  ::_exit(written == 1 ? 0 : 1);
}

/// What poll() has seen.
enum class Outlook : std::uint8_t { kThroughIt, kEnded, kLate };

Outlook watch(int pipe, Deadline deadline) {
  for (;;) {
    pollfd news{pipe, POLLIN, 0};
    const int ready = ::poll(&news, 1, deadline.poll_ms(1000));
    if (ready > 0) {
      char byte = 0;
      const ssize_t got = ::read(pipe, &byte, 1);
      if (got == 1) return Outlook::kThroughIt;
      if (got == 0) return Outlook::kEnded;
    }
    if (deadline.passed()) return Outlook::kLate;
  }
}

Status no_trial() {
  log_info(Subsystem::kNet, "", "{}",
           system_error(Code::kUnavailable, errno, "no trial in a child process").what);
  return ok_status();
}

const char* signal_text(int signal) {
  const char* const text = ::sigdescr_np(signal);
  return text == nullptr ? "unknown" : text;
}

/// Waits for its end, after SIGKILL. Empty if somebody else has seen it, since a program may wait
/// for any child, and if a driver does not let it end: it stays a zombie then.
std::string how_it_ended(pid_t child) {
  constexpr Nanos kPatience = std::chrono::seconds(1);
  const Deadline deadline = Deadline::after(kPatience);
  int status = 0;
  for (;;) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) break;
    if ((ended < 0 && errno != EINTR) || deadline.passed()) return {};
    (void)::poll(nullptr, 0, 1);
  }
  if (WIFSIGNALED(status))
    return fmt::format(" by signal {} ({})", WTERMSIG(status), signal_text(WTERMSIG(status)));
  return fmt::format(" with exit code {}", WEXITSTATUS(status));
}

}  // namespace

Status survives(const std::function<void()>& body, Nanos limit) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return no_trial();
  const Fd mine(ends[0]);
  Fd theirs(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return no_trial();
  if (child == 0) live_and_die(body, theirs.get(), parent);
  theirs.reset();
  const Outlook outlook = watch(mine.get(), Deadline::after(limit));
  ::kill(child, SIGKILL);
  const std::string end = how_it_ended(child);
  switch (outlook) {
    case Outlook::kThroughIt:
      return ok_status();
    case Outlook::kEnded:
      return make_error(Code::kUnsupported, "it ended{}", end);
    case Outlook::kLate:
      break;
  }
  return make_error(Code::kUnsupported, "it took longer than {:g} s",
                    std::chrono::duration<double>(limit).count());
}

}  // namespace tutti::plugin
