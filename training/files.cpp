#include "training/files.hpp"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "training/outcome.hpp"

namespace tutti::training {
namespace {

namespace fs = std::filesystem;

Error refused(const char* what, const fs::path& file, int number) {
  Error error = failure(Code::kUnavailable, "{} {}: {}", what, file.string(),
                        std::generic_category().message(number));
  error.os_errno = number;
  return error;
}

/// Closed with the scope.
class Descriptor {
 public:
  Descriptor(const fs::path& file, int flags)
      : fd_(::open(file.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }

 private:
  int fd_;
};

Status write_all(int fd, const fs::path& file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return refused("writing", file, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return ok_status();
}

}  // namespace

Status write_durably(const fs::path& file, std::span<const std::span<const std::byte>> parts) {
  const Descriptor open(file, O_WRONLY | O_CREAT | O_TRUNC);
  if (!open.is_open()) return refused("creating", file, errno);
  for (const auto part : parts) TRAINING_TRY(write_all(open.get(), file, part));
  if (::fsync(open.get()) != 0) return refused("flushing", file, errno);
  return ok_status();
}

Status flush_folder(const fs::path& folder) {
  const Descriptor open(folder, O_RDONLY | O_DIRECTORY);
  if (!open.is_open()) return refused("opening", folder, errno);
  if (::fsync(open.get()) != 0) return refused("flushing", folder, errno);
  return ok_status();
}

Status read_part(const fs::path& file, std::uint64_t offset, std::span<std::byte> bytes) {
  const Descriptor open(file, O_RDONLY);
  if (!open.is_open()) return refused("opening", file, errno);
  while (!bytes.empty()) {
    const ssize_t got = ::pread(open.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refused("reading", file, errno);
    if (got == 0)
      return failure(Code::kWrongData, "{} ends before byte {}: it was cut short", file.string(),
                     offset + bytes.size());
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return ok_status();
}

Result<std::string> read_text(const fs::path& file, std::size_t most) {
  struct stat facts{};
  if (::stat(file.c_str(), &facts) != 0) return refused("opening", file, errno);
  const auto bytes = static_cast<std::size_t>(facts.st_size);
  if (!S_ISREG(facts.st_mode) || bytes > most)
    return failure(Code::kWrongData, "{} is no file of at most {} bytes", file.string(), most);
  std::string text(bytes, '\0');
  TRAINING_TRY(read_part(file, 0, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace tutti::training
