#include "src/base/whole_file.hpp"

#include <cerrno>
#include <filesystem>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/printable.hpp"
#include "src/base/result.hpp"

namespace tutti {
namespace {

Error cannot_write(std::string_view name) {
  return system_error(Code::kUnavailable, errno, fmt::format("cannot write {}", name));
}

std::string in_quotes(std::string_view path) { return fmt::format("'{}'", without_controls(path)); }

/// A new file of this process alone beside `target`, and its name.
std::pair<Fd, std::string> open_beside(const std::string& target) {
  constexpr int kMostTries = 100;
  for (int number = 0; number < kMostTries; ++number) {
    std::string name = fmt::format("{}.{}.{}", target, ::getpid(), number);
    Fd file(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (file || errno != EEXIST) return {std::move(file), std::move(name)};
  }
  return {};
}

/// A file beside the one that it is to replace, so that a failure leaves that as it was.
class Aside {
 public:
  /// nullopt where this is not for `path`: it is no regular file, or its folder takes no files.
  static std::optional<Aside> beside(const std::string& path) {
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    const bool exists = std::filesystem::exists(status);
    if (exists && !std::filesystem::is_regular_file(status)) return std::nullopt;
    if (exists && ::access(path.c_str(), W_OK) != 0) return std::nullopt;
    const std::string target = exists ? std::filesystem::canonical(path, error).string() : path;
    if (exists && error) return std::nullopt;
    auto [file, own] = open_beside(target);
    if (!file) return std::nullopt;
    const auto mode = static_cast<mode_t>(status.permissions()) & 0777U;
    if (exists && ::fchmod(file.get(), mode) != 0) {
      ::unlink(own.c_str());
      return std::nullopt;
    }
    return Aside(std::move(file), std::move(own), target);
  }
  Aside(Aside&& other) noexcept
      : file_(std::move(other.file_)),
        own_(std::exchange(other.own_, {})),
        target_(std::move(other.target_)) {}
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;
  ~Aside() {
    if (!own_.empty()) ::unlink(own_.c_str());
  }

  [[nodiscard]] const Fd& file() const { return file_; }
  Status take_place() {
    if (::rename(own_.c_str(), target_.c_str()) != 0) return cannot_write(in_quotes(target_));
    own_.clear();
    return ok_status();
  }

 private:
  Aside(Fd file, std::string own, std::string target)
      : file_(std::move(file)), own_(std::move(own)), target_(std::move(target)) {}

  Fd file_;
  std::string own_, target_;
};

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return system_error(Code::kUnavailable, errno, "cannot open " + in_quotes(path));
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t bytes = ::read(file.get(), buffer, sizeof buffer);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return system_error(Code::kUnavailable, errno, "cannot read " + in_quotes(path));
    if (bytes == 0) return text;
    text.append(buffer, static_cast<std::size_t>(bytes));
    if (text.size() > limit)
      return make_error(Code::kInvalidArgument, "{} is larger than the {} bytes that are accepted",
                        in_quotes(path), limit);
  }
}

Status write_file(const std::string& path, std::string_view text) {
  if (auto aside = Aside::beside(path)) {
    TUTTI_TRY(write_all(aside->file(), in_quotes(path), text));
    return aside->take_place();
  }
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file) return system_error(Code::kUnavailable, errno, "cannot open " + in_quotes(path));
  return write_all(file, in_quotes(path), text);
}

Status write_all(const Fd& file, std::string_view name, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return cannot_write(name);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  // Network file systems tell of a full disk when a descriptor is closed.
  const int last = ::dup(file.get());
  if (last < 0 || ::close(last) != 0) return cannot_write(name);
  return ok_status();
}

}  // namespace tutti
