#include "tools/dropin/run.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/fd.hpp"
#include "src/base/result.hpp"
#include "src/base/whole_file.hpp"
#include "tools/program/cli.hpp"

namespace tutti::tools {
namespace {

/// A list that the dynamic linker reads from the environment, with `path` behind what it holds.
Result<std::string> list_with(const char* variable, const std::string& path) {
  if (path.find_first_of(": ") != std::string::npos)
    return make_error(Code::kUnavailable,
                      "{} cannot name '{}', which has a colon or a space: install Tutti elsewhere",
                      variable, path);
  const char* before = std::getenv(variable);
  return before == nullptr || *before == '\0' ? path : fmt::format("{}:{}", before, path);
}

/// Another libnccl in LD_PRELOAD; "" where there is none.
std::string preloaded_nccl() {
  const char* list = std::getenv("LD_PRELOAD");
  std::string_view rest = list == nullptr ? "" : list;
  while (!rest.empty()) {
    const std::size_t length = std::min(rest.find_first_of(": "), rest.size());
    const std::filesystem::path path = rest.substr(0, length);
    if (path.filename().string().starts_with("libnccl.so")) return path;
    rest.remove_prefix(std::min(length + 1, rest.size()));
  }
  return "";
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// A file that goes when this does.
class TemporaryFile {
 public:
  static Result<TemporaryFile> make() {
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
    if (error) return make_error(Code::kUnavailable, "TMPDIR or /tmp: {}", error.message());
    std::string path = folder / "tutti-dropin-XXXXXX";
    const Fd file(::mkostemp(path.data(), O_CLOEXEC));
    if (!file)
      return system_error(Code::kUnavailable, errno, "cannot make a file in " + folder.string());
    return TemporaryFile(path);
  }
  TemporaryFile(TemporaryFile&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// What a child starts with, and gets back in `become`.
class WaitingSignals {
 public:
  WaitingSignals() {
    ::sigemptyset(&waited_);
    for (const int signal : {SIGCHLD, SIGTERM, SIGHUP}) ::sigaddset(&waited_, signal);
    ::sigprocmask(SIG_BLOCK, &waited_, &before_);
    old_interrupt_ = ::signal(SIGINT, SIG_IGN);
    old_quit_ = ::signal(SIGQUIT, SIG_IGN);
  }
  ~WaitingSignals() { restore(); }
  WaitingSignals(const WaitingSignals&) = delete;
  WaitingSignals& operator=(const WaitingSignals&) = delete;

  void restore() const {
    ::signal(SIGINT, old_interrupt_);
    ::signal(SIGQUIT, old_quit_);
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  /// Until `child` has ended: its status.
  [[nodiscard]] int wait_for(pid_t child) const {
    int status = 0;
    while (::waitpid(child, &status, WNOHANG) == 0) {
      const int signal = ::sigwaitinfo(&waited_, nullptr);
      if (signal == SIGTERM || signal == SIGHUP) ::kill(child, signal);
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  sigset_t waited_{}, before_{};
  sighandler_t old_interrupt_, old_quit_;
};

Error cannot_run(const std::string& program) {
  return system_error(Code::kUnavailable, errno, fmt::format("cannot run '{}'", program));
}

/// Starts it, and waits for it to have become the program: -1 sets errno to why it did not.
pid_t start(const std::vector<char*>& arguments, const WaitingSignals& signals,
            bool output_to_error) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return -1;
  const Fd report(ends[0]);
  Fd failure(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return -1;
  if (child == 0) {
    signals.restore();
    if (output_to_error) ::dup2(STDERR_FILENO, STDOUT_FILENO);
    ::execvp(arguments[0], arguments.data());
    const int why = errno;
    [[maybe_unused]] const ssize_t told = ::write(failure.get(), &why, sizeof why);
    ::_exit(kExitEnvironment);
  }
  failure.reset();
  int why = 0;
  if (::read(report.get(), &why, sizeof why) != sizeof why) return child;
  ::waitpid(child, nullptr, 0);
  errno = why;
  return -1;
}

}  // namespace

Result<DropinLibraries> find_libraries() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return make_error(Code::kUnavailable, "cannot read /proc/self/exe; is /proc mounted?");
  const std::filesystem::path prefix = self.parent_path().parent_path();
  // The auditor says which of the two it is: an installed prefix may hold another libnccl in lib.
  const std::filesystem::path installed = prefix / TUTTI_LIBDIR / "tutti";
  DropinLibraries libraries{.nccl = installed / "nccl-compat/lib/libnccl.so.2",
                            .auditor = installed / "libtutti_audit.so"};
  if (!std::filesystem::exists(libraries.auditor, error))
    libraries = {.nccl = prefix / "lib/libnccl.so.2", .auditor = prefix / "lib/libtutti_audit.so"};
  for (const std::string& path : {libraries.auditor, libraries.nccl})
    if (!std::filesystem::exists(path, error))
      return make_error(Code::kUnavailable, "there is no {}: build or install it with this program",
                        path);
  return libraries;
}

Error become_with(const std::string& library, std::vector<std::string> command) {
  const std::string other = preloaded_nccl();
  if (!other.empty() && other != library)
    return make_error(Code::kInvalidUsage,
                      "LD_PRELOAD names another libnccl, {}, which would go first: take it out",
                      other);
  if (other.empty()) {
    TUTTI_ASSIGN(const std::string list, list_with("LD_PRELOAD", library));
    ::setenv("LD_PRELOAD", list.c_str(), 1);
  }
  ::execvp(command[0].c_str(), pointers_to(command).data());
  return cannot_run(command[0]);
}

Result<AuditedRun> run_audited(const std::string& auditor, std::vector<std::string> command,
                               bool output_to_error) {
  TUTTI_ASSIGN(const TemporaryFile file, TemporaryFile::make());
  TUTTI_ASSIGN(const std::string list, list_with("LD_AUDIT", auditor));
  ::setenv("LD_AUDIT", list.c_str(), 1);
  ::setenv("_TUTTI_DROPIN_EVENTS", file.path().c_str(), 1);
  const WaitingSignals signals;
  const pid_t child = start(pointers_to(command), signals, output_to_error);
  if (child < 0) return cannot_run(command[0]);
  const int status = signals.wait_for(child);
  constexpr std::size_t kMostEvents = std::size_t{1} << 30;
  TUTTI_ASSIGN(std::string events, read_file(file.path(), kMostEvents));
  return AuditedRun{.status = status, .events = std::move(events)};
}

}  // namespace tutti::tools
