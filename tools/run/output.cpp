#include "tools/run/output.hpp"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace tutti::tools {
namespace {

constexpr std::size_t kLongestLine = 65536;  // longer ones are broken, so memory stays bounded

/// 0, or errno of what went wrong.
int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {  // a terminal shared with a non-blocking program
      pollfd wait{fd, POLLOUT, 0};
      ::poll(&wait, 1, -1);
      continue;
    }
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace

PrefixedStream::PrefixedStream(Fd source, int destination, std::string prefix)
    : source_(std::move(source)), destination_(destination), prefix_(std::move(prefix)) {
  ::fcntl(source_.get(), F_SETFL, O_NONBLOCK);
}

PrefixedStream::State PrefixedStream::pump() {
  char buffer[1 << 16];
  for (;;) {
    const ssize_t bytes = ::read(source_.get(), buffer, sizeof buffer);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && errno == EAGAIN) return State::kOpen;
    if (bytes <= 0) return State::kEnded;
    pending_.append(buffer, static_cast<std::size_t>(bytes));
    if (!write_lines()) return State::kUnwritable;
  }
}

void PrefixedStream::finish() {
  if (!source_) return;
  pump();
  if (!pending_.empty()) write_line(std::exchange(pending_, {}));
  source_.reset();
}

bool PrefixedStream::write_lines() {
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = pending_.find('\n', begin);
    const bool whole = end != std::string::npos;
    if (!whole && pending_.size() - begin < kLongestLine) break;
    const std::size_t length = whole ? end - begin : kLongestLine;
    if (!write_line(std::string_view(pending_).substr(begin, length))) return false;
    begin += length + (whole ? 1 : 0);
  }
  pending_.erase(0, begin);
  return true;
}

bool PrefixedStream::write_line(std::string_view line) {
  std::string text = prefix_;
  text.append(line).push_back('\n');
  failure_ = write_all(destination_, text);
  return failure_ == 0;
}

}  // namespace tutti::tools
