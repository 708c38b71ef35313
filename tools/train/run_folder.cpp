#include "tools/train/run_folder.hpp"

#include <cerrno>
#include <random>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "src/base/result.hpp"
#include "src/base/whole_file.hpp"
#include "tools/program/cli.hpp"

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = ".run";
constexpr std::size_t kLongest = 64;

std::string text_of(std::uint64_t mark) { return fmt::format("{:016x}\n", mark); }

Error refused(const char* what, const fs::path& path, int error) {
  return make_error(Code::kUnavailable, "cannot {} {}: {}", what, tools::shown_path(path.string()),
                    std::generic_category().message(error));
}

}  // namespace

Result<RunFolder> RunFolder::take(const fs::path& folder) {
  std::error_code why;
  fs::create_directories(folder, why);
  if (why) return refused("create --out", folder, why.value());
  const fs::path path = folder / kName;
  Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file) return refused("write", path, errno);
  // Where a file system has no locks, nothing is kept away.
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return make_error(
        Code::kInvalidUsage,
        "--out {}: another run is writing there; give another folder, or end that run",
        tools::shown_path(folder.string()));
  std::random_device random;
  const std::uint64_t mark = std::uint64_t{random()} << 32U | random();
  const std::string text = text_of(mark);
  const bool written =
      ::pwrite(file.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
      ::fsync(file.get()) == 0;
  if (!written) return refused("write", path, errno);
  return RunFolder(std::move(file), mark);
}

Status find_mark(const fs::path& folder, std::uint64_t mark) {
  const auto text = read_file((folder / kName).string(), kLongest);
  if (text && *text == text_of(mark)) return ok_status();
  return make_error(Code::kUnavailable,
                    "--out {} is not the folder that rank 0 writes to: give one that all ranks "
                    "reach by this name",
                    tools::shown_path(folder.string()));
}

}  // namespace tutti::trainer
