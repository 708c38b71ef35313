#include "src/bootstrap/job_file.hpp"

#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/fd.hpp"
#include "src/base/result.hpp"
#include "src/wire/crypto.hpp"
#include "src/wire/net.hpp"

namespace tutti {
namespace {
constexpr std::size_t kTextBytes = kUniqueIdBytes * 2;
}

Result<JobFile> JobFile::publish(const std::string& path, const UniqueId& id) {
  const std::string draft = fmt::format("{}.{}", path, ::getpid());
  Fd fd(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) {
    return system_error(Code::kUnavailable, errno,
                        fmt::format("cannot make {} for the rendezvous", draft));
  }
  const std::string text = to_hex(encode(id));
  const bool written =
      ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fsync(fd.get()) == 0;
  const int write_errno = errno;
  // link() fails where rename() would silently replace another job's file.
  const int linked = written ? ::link(draft.c_str(), path.c_str()) : -1;
  const int link_errno = errno;
  ::unlink(draft.c_str());
  if (!written) {
    return system_error(Code::kUnavailable, write_errno, fmt::format("cannot write {}", draft));
  }
  if (linked == 0) return JobFile(path);
  if (link_errno == EEXIST) {
    return make_error(
        Code::kInvalidUsage,
        "the rendezvous file {} exists already: an earlier job left it (remove it), or "
        "another job uses it (choose another name)",
        path);
  }
  return system_error(Code::kUnavailable, link_errno,
                      fmt::format("cannot make the rendezvous file {}", path));
}

JobFile::~JobFile() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

namespace {

Status check_owner(const std::string& path, int fd) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) {
    return system_error(Code::kUnavailable, errno, fmt::format("cannot stat {}", path));
  }
  if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & 077) != 0) {
    return make_error(Code::kInvalidUsage,
                      "the rendezvous file {} is not a private file of this user (uid {}, mode "
                      "{:04o}; needed: uid {}, mode 0600): it would carry no secret",
                      path, status.st_uid, status.st_mode & 07777, ::geteuid());
  }
  return ok_status();
}

}  // namespace

Result<UniqueId> read_job_file(const std::string& path, Deadline deadline) {
  for (int attempt = 0;; ++attempt) {
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (fd) {
      TUTTI_TRY(check_owner(path, fd.get()));
      std::array<char, kTextBytes + 1> text;
      const ssize_t n = ::read(fd.get(), text.data(), text.size());
      UniqueIdBytes bytes{};
      if (n < 0 || !from_hex({text.data(), static_cast<std::size_t>(n)}, bytes)) {
        return make_error(Code::kInvalidArgument,
                          "the rendezvous file {} holds no unique id: remove it", path);
      }
      return decode_unique_id(bytes);
    }
    if (errno != ENOENT) {
      return system_error(Code::kUnavailable, errno,
                          fmt::format("cannot read the rendezvous file {}", path));
    }
    if (deadline.passed()) {
      return make_error(
          Code::kTimeout,
          "the rendezvous file {} never came: rank 0 has not started, or sees another "
          "file system",
          path);
    }
    back_off(attempt, deadline);  // a condition nobody signals: it may be on a network file system
  }
}

}  // namespace tutti
