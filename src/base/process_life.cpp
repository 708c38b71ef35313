#include "src/base/process_life.hpp"

#include <array>
#include <cerrno>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/base/fd.hpp"

namespace tutti {
namespace {

/// What /proc/PID/stat says, see proc(5).
struct Stat {
  char state = '?';
  std::int64_t threads = 0;
  std::uint64_t started = 0;
};

/// Whether /proc tells of the processes that our numbers mean, not of another namespace's.
bool proc_is_ours() {
  static const bool ours = [] {
    std::array<char, 32> text{};
    const ssize_t bytes = ::readlink("/proc/self", text.data(), text.size() - 1);
    return bytes > 0 && std::string_view(text.data()) == std::to_string(::getpid());
  }();
  return ours;
}

/// `gone` tells a process that does not exist from one that cannot be looked at.
std::optional<Stat> read_stat(pid_t pid, bool& gone) {
  gone = false;
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    gone = errno == ENOENT && proc_is_ours();
    return std::nullopt;
  }
  std::array<char, 1024> text;
  const ssize_t bytes = ::read(file.get(), text.data(), text.size());
  if (bytes <= 0) {
    gone = bytes < 0 && errno == ESRCH;
    return std::nullopt;
  }
  const std::string line(text.data(), static_cast<std::size_t>(bytes));
  const std::size_t name_end = line.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  Stat stat;
  fields >> stat.state;
  constexpr int kThreads = 20, kStarted = 22;
  std::string skipped;
  for (int field = 4; field <= kStarted && fields; ++field) {
    if (field == kThreads) {
      fields >> stat.threads;
    } else if (field == kStarted) {
      fields >> stat.started;
    } else {
      fields >> skipped;
    }
  }
  if (!fields) return std::nullopt;
  return stat;
}

}  // namespace

ProcessLife ProcessLife::of(pid_t pid) {
  ProcessLife life;
  bool gone = false;
  if (pid <= 0 || !proc_is_ours()) return life;
  const auto stat = read_stat(pid, gone);
  life.ended_ = gone;
  if (!stat) return life;
  life.pid_ = pid;
  life.started_ = stat->started;
  return life;
}

ProcessLife ProcessLife::of_peer(int unix_socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(unix_socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return {};
  return of(peer.pid);
}

bool ProcessLife::ended() const {
  if (ended_ || pid_ == 0) return ended_;
  bool gone = false;
  const auto stat = read_stat(pid_, gone);
  if (!stat) return gone;
  if (stat->started != started_) return true;
  // A zombie whose other threads run on is one whose main thread alone has ended.
  return (stat->state == 'Z' && stat->threads <= 1) || stat->state == 'X';
}

}  // namespace tutti
