#include "src/base/log.hpp"

#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <utility>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/base/fd.hpp"
#include "src/base/result.hpp"
#include "src/base/settings.hpp"

namespace tutti {
namespace {

constexpr std::pair<std::string_view, Subsystem> kSubsystems[] = {
    {"INIT", Subsystem::kInit},     {"COLL", Subsystem::kColl},
    {"P2P", Subsystem::kP2p},       {"SHM", Subsystem::kShm},
    {"NET", Subsystem::kNet},       {"GRAPH", Subsystem::kGraph},
    {"TUNING", Subsystem::kTuning}, {"ENV", Subsystem::kEnv},
    {"ALLOC", Subsystem::kAlloc},   {"CALL", Subsystem::kCall},
    {"ALL", Subsystem::kAll},       {"BOOTSTRAP", Subsystem::kBootstrap},
};

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return "unknown-host";
  return name;
}

std::string expand(std::string_view pattern, std::string_view host) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (pattern[i] != '%' || (next != 'h' && next != 'p' && next != '%')) {
      path += pattern[i];
      continue;
    }
    path += next == 'h' ? std::string(host) : next == 'p' ? std::to_string(::getpid()) : "%";
    ++i;
  }
  return path;
}

/// What the log is doing now; replaced as a whole by reset_log, kept alive by the lines under way.
struct Sink {
  std::string host;
  Fd file;  ///< empty: standard error
  [[nodiscard]] int fd() const { return file ? file.get() : STDERR_FILENO; }
};

void write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // a log that cannot be written has nowhere to say so
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string_view level_name(LogLevel level) {
  constexpr std::string_view kNames[] = {"NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE"};
  return kNames[static_cast<std::size_t>(level)];
}

/// The process's log. It is the process's, not a communicator's, because the environment and
/// standard error are.
class Log {
 public:
  Log() { reset(); }

  [[nodiscard]] bool enabled(LogLevel level, Subsystem subsystem) const {
    if (static_cast<int>(level) > level_.load(std::memory_order_relaxed)) return false;
    return level <= LogLevel::kWarn ||
           (mask_.load(std::memory_order_relaxed) & static_cast<std::uint32_t>(subsystem)) != 0;
  }

  void line(LogLevel level, std::string_view who, std::string_view text) {
    const std::shared_ptr<const Sink> sink = current();
    std::string line =
        fmt::format("{}:{}:{} TUTTI {} {}{}{}", sink->host, ::getpid(), ::syscall(SYS_gettid),
                    level_name(level), who, who.empty() ? "" : " ", text);
    for (char& c : line)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
    line += '\n';
    write_all(sink->fd(), line);
  }

  void reset() {
    const Result<Settings> loaded = Settings::load(process_environment());
    const Settings settings = loaded ? *loaded : Settings();
    auto sink = std::make_shared<Sink>();
    sink->host = host_name();
    const std::string path = expand(settings.text("DEBUG_FILE"), sink->host);
    if (!path.empty())
      sink->file = Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    const int open_errno = path.empty() || sink->file ? 0 : errno;
    {
      std::scoped_lock lock(mutex_);
      sink_ = std::move(sink);
    }
    level_.store(static_cast<int>(settings.integer("DEBUG")), std::memory_order_relaxed);
    mask_.store(parse_subsystems(settings.text("DEBUG_SUBSYS")), std::memory_order_relaxed);
    if (!loaded) warn(loaded.error());
    if (open_errno != 0)
      warn(system_error(Code::kUnavailable, open_errno,
                        fmt::format("{}: cannot write '{}', logging to standard error instead",
                                    settings.source("DEBUG_FILE"), path)));
  }

 private:
  [[nodiscard]] std::shared_ptr<const Sink> current() const {
    std::scoped_lock lock(mutex_);
    return sink_;
  }
  void warn(const Error& error) {
    if (enabled(LogLevel::kWarn, Subsystem::kAll)) line(LogLevel::kWarn, "", error.what);
  }

  std::atomic<int> level_{static_cast<int>(LogLevel::kWarn)};
  std::atomic<std::uint32_t> mask_{0};
  mutable std::mutex mutex_;
  std::shared_ptr<const Sink> sink_;
};

Log& process_log() {
  // Never destroyed: threads may log while the process exits.
  static Log& log = *std::make_unique<Log>().release();
  return log;
}

}  // namespace

std::uint32_t parse_subsystems(std::string_view list) {
  const bool inverted = list.starts_with('^');
  if (inverted) list.remove_prefix(1);
  std::uint32_t mask = 0;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const std::string_view name = list.substr(0, comma);
    for (const auto& [known, subsystem] : kSubsystems)
      if (known == name) mask |= static_cast<std::uint32_t>(subsystem);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return inverted ? ~mask : mask;
}

bool log_enabled(LogLevel level, Subsystem subsystem) {
  return process_log().enabled(level, subsystem);
}

void log_formatted(LogLevel level, std::string_view who, fmt::string_view format,
                   fmt::format_args args) {
  log_line(level, who, fmt::vformat(format, args));
}

void log_line(LogLevel level, std::string_view who, std::string_view text) {
  process_log().line(level, who, text);
}

void reset_log() { process_log().reset(); }

}  // namespace tutti
