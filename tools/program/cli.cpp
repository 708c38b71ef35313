#include "tools/program/cli.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "src/base/fd.hpp"
#include "src/base/printable.hpp"
#include "src/base/result.hpp"
#include "src/base/whole_file.hpp"

namespace tutti::tools {
namespace {

/// Whether a device takes bytes, and whether the file system of anything else has some left. False
/// sets errno.
bool has_room(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_character_file(path, ignored)) {
    const Fd device(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    return device && ::write(device.get(), nullptr, 0) == 0;
  }
  constexpr std::uintmax_t kLeast = 1 << 16;
  const auto space = std::filesystem::space(path, ignored);
  if (ignored || space.capacity == 0 || space.available >= kLeast) return true;
  errno = ENOSPC;
  return false;
}

}  // namespace

ExitCode exit_code_of(const Error& error) {
  switch (error.code) {
    case Code::kInvalidArgument:
    case Code::kInvalidUsage:
      return kExitUsage;
    case Code::kUnsupported:
    case Code::kUnavailable:
    case Code::kDevice:
      return kExitEnvironment;
    case Code::kPeerFailed:
    case Code::kTimeout:
    case Code::kAborted:
      return kExitPeer;
    case Code::kWrongData:
      return kExitWrongData;
    case Code::kInternal:
      break;
  }
  return kExitOther;
}

std::string version_line() { return "tutti " TUTTI_VERSION " (NCCL API 2.28.9)"; }

void hold_standard_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free descriptor is this one, since those below it are open by now.
    (void)Fd(::open("/dev/null", O_RDONLY)).release();
  }
}

void note(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

Status print(std::string_view text) { return write_output("-", text); }

int fail(std::string_view program, ExitCode code, std::string_view message) {
  note(fmt::format("{}: {}\n", program, without_controls(message, "\n\t")));
  return code;
}

int fail(std::string_view program, const Error& error) {
  return fail(program, exit_code_of(error), error.what);
}

std::string shown_path(std::string_view path) {
  return path == "-" ? "standard output" : fmt::format("'{}'", without_controls(path));
}

Error wrong_file(const std::string& path, const Error& error) {
  const bool is_content = error.code == Code::kInvalidArgument || error.code == Code::kInvalidUsage;
  return make_error(is_content ? Code::kWrongData : error.code, "{}: {}", shown_path(path),
                    error.what);
}

std::string Table::text(const std::vector<std::size_t>& right_aligned) const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool right = std::ranges::find(right_aligned, i) != right_aligned.end();
      line += right ? fmt::format("{:>{}}  ", row[i], widths[i])
                    : fmt::format("{:<{}}  ", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

ProgressBar::ProgressBar(bool on)
    : on_(on && ::isatty(STDERR_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr) {}

void ProgressBar::show(std::size_t done, std::size_t all, std::string_view what) const {
  if (!on_) return;
  constexpr std::size_t kWidth = 24;
  const std::size_t filled = all == 0 ? 0 : done * kWidth / all;
  note(fmt::format("\r\x1b[2K[{:#<{}}{:.<{}}] {}/{} {}", "", filled, "", kWidth - filled, done, all,
                   what));
}

void ProgressBar::clear() const {
  if (on_) note("\r\x1b[2K");
}

Status write_output(const std::string& path, std::string_view text) {
  if (path != "-") return write_file(path, text);
  const Fd out(::dup(STDOUT_FILENO));
  if (!out) return system_error(Code::kUnavailable, errno, "cannot open standard output");
  return write_all(out, "standard output", text);
}

std::string_view option_on_standard_output(std::span<const Output> outputs) {
  const auto found = std::ranges::find(outputs, "-", &Output::path);
  return found == outputs.end() ? std::string_view() : found->option;
}

Status check_outputs(std::span<const Output> outputs) {
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    if (output->path.empty()) continue;
    const auto other = std::find_if(
        outputs.begin(), output, [&](const Output& before) { return before.path == output->path; });
    std::error_code ignored;
    if (other != output && !std::filesystem::is_character_file(output->path, ignored))
      return make_error(Code::kInvalidArgument,
                        "{} and {} cannot both go to {}: give one of them another file",
                        other->option, output->option, shown_path(output->path));
    TUTTI_TRY(check_writable(output->path));
  }
  return ok_status();
}

Status check_writable(const std::string& path) {
  if (path == "-") return ok_status();
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return make_error(Code::kUnavailable, "cannot write {}: it is a directory; name a file",
                      shown_path(path));
  const bool exists = std::filesystem::exists(path, ignored);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const std::string asked = exists ? path : folder.empty() ? "." : folder.string();
  if (::access(asked.c_str(), exists ? W_OK : W_OK | X_OK) == 0 && has_room(asked))
    return ok_status();
  return system_error(
      Code::kUnavailable, errno,
      exists ? fmt::format("cannot write {}", shown_path(path))
             : fmt::format("cannot write {} in {}", shown_path(path), shown_path(asked)));
}

}  // namespace tutti::tools
