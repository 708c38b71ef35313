#include "src/cost/measured_store.hpp"

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "src/base/clock.hpp"
#include "src/base/cpus.hpp"
#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/base/whole_file.hpp"

namespace tutti {
namespace {

constexpr std::int64_t kStaysTrue = 7 * 24 * 3600;  // seconds: machines are changed and moved
constexpr std::int64_t kClocksDiffer = 60;

/// Formats 1 to 4 were no tables.
bool is_of_earlier_format(std::string_view text) {
  constexpr std::string_view kHead = "{\"format\": ";
  return text.starts_with(kHead) && text.size() > kHead.size() && text[kHead.size()] >= '1' &&
         text[kHead.size()] <= '4';
}

/// Whether a cache may take the place of this text, which may be cut anywhere: not of anybody's
/// notes, nor of a table by `tutti tune`.
bool is_of_cache(std::string_view text) {
  const std::string head = fmt::format("{}\n \"machine\": ", kTableHead);
  return text.starts_with(std::string_view(head).substr(0, text.size())) ||
         is_of_earlier_format(text);
}

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (const auto colon = line.find(": "); line.starts_with("model name") && colon != line.npos)
      return line.substr(colon + 2);
  return "";
}

/// The new file before it takes the old one's place, which this process alone may write; one that
/// a killed process left behind is taken over. None: another process is at it.
Result<Fd> lock_new_file(const std::string& path) {
  Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644));
  const auto cannot_write = [&] {
    return system_error(Code::kUnavailable, errno, fmt::format("cannot write {}", path));
  };
  if (!file) return cannot_write();
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0)
    return errno == EWOULDBLOCK ? Result<Fd>(Fd()) : cannot_write();
  struct stat mine = {}, there = {};
  if (::fstat(file.get(), &mine) != 0) return cannot_write();
  if (!S_ISREG(mine.st_mode) || mine.st_nlink > 1 || mine.st_uid != ::geteuid())
    return make_error(Code::kUnavailable, "{} was put there by somebody else: remove it", path);
  const bool same = ::stat(path.c_str(), &there) == 0 && mine.st_ino == there.st_ino &&
                    mine.st_dev == there.st_dev;
  if (!same) return Fd();  // its owner has just put it into place
  return file;
}

}  // namespace

std::string machine_signature() {
  utsname kernel{};
  const bool known = ::uname(&kernel) == 0;
  const CpuShare cpus = CpuShare::of_this_thread();
  std::string model = processor();
  if (model.empty()) model = known ? kernel.machine : "unknown";
  return fmt::format("{}, {} CPUs, Linux {}", model, usable_cpus({&cpus, 1}),
                     known ? kernel.release : "unknown");
}

std::string measured_file(const std::string& setting, const Environment& environment,
                          std::string_view machine, std::string_view ending) {
  if (setting == "none" || setting == "/dev/null") return "";
  if (setting != "auto") return setting;
  std::string folder = environment("XDG_CACHE_HOME").value_or("");
  if (folder.empty()) {
    folder = environment("HOME").value_or("");
    if (folder.empty()) return "";
    folder += "/.cache";
  }
  std::string name;
  for (const char c : machine) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_';
    if (plain || (!name.empty() && name.back() != '-')) name += plain ? c : '-';
  }
  return fmt::format("{}/tutti/{}{}", folder, name.substr(0, 200), ending);
}

std::unique_ptr<MeasuredStore> store_of_verdicts(const Settings& settings) {
  const std::string machine = machine_signature();
  return std::make_unique<MeasuredStore>(
      measured_file(settings.text("TUNING_FILE"), process_environment(), machine, ".json"),
      "TUTTI_TUNING_FILE", machine);
}

std::unique_ptr<MeasuredStore> store_of_table(const Settings& settings) {
  return std::make_unique<MeasuredStore>(
      measured_file(settings.text("TUNING_TABLE"), process_environment(), machine_signature(),
                    ".table.json"),
      "TUTTI_TUNING_TABLE");
}

MeasuredTable MeasuredStore::table() {
  const std::scoped_lock lock(mutex_);
  load_once();
  return table_;
}

void MeasuredStore::add(const MeasuredRange& range, bool keep) {
  {
    const std::scoped_lock lock(mutex_);
    if (keep) load_once();
    table_.add(range);
  }
  if (!keep || path_.empty()) return;
  if (const Status saved = save(); !saved)
    log_info(Subsystem::kTuning, "", "what was measured is not kept: {}", saved.error().what);
}

/// "" where there is no file; no more of a large one than parse() refuses. Devices and pipes are
/// none to be read, and may block whoever does.
Result<std::string> MeasuredStore::contents() const {
  const Fd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file && (errno == ENOENT || errno == ENOTDIR)) return std::string();
  struct stat about = {};
  if (!file || ::fstat(file.get(), &about) != 0)
    return system_error(Code::kUnavailable, errno, fmt::format("cannot read {}", path_));
  if (!S_ISREG(about.st_mode))
    return make_error(Code::kInvalidArgument, "{} is no regular file: let {} name one, or none",
                      path_, setting_);
  std::string text;
  std::array<char, 16384> part{};
  while (text.size() <= kMostTableBytes) {
    const ssize_t got = ::read(file.get(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return system_error(Code::kUnavailable, errno, fmt::format("cannot read {}", path_));
    if (got == 0) break;
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  return text;
}

/// The same where nothing of somebody else is there, which is not to be replaced.
Result<std::string> MeasuredStore::own_contents() const {
  TUTTI_ASSIGN(std::string text, contents());
  if (is_of_cache(text)) return text;
  return make_error(Code::kInvalidArgument,
                    "{} is no tuning file and stays as it is: let {} name another", path_,
                    setting_);
}

/// What counts of a file with this text.
Result<MeasuredTable> MeasuredStore::parse(std::string_view text) const {
  if (text.empty() || (is_cache() && is_of_earlier_format(text))) return MeasuredTable();
  auto table = MeasuredTable::parse(text);
  if (!table)
    return make_error(Code::kInvalidArgument, "{} is no table: let {} name another, or none ({})",
                      path_, setting_, table.error().what);
  if (is_cache() && table->machine.empty())
    return make_error(Code::kInvalidArgument,
                      "{} is a table by tutti tune: let TUTTI_TUNING_TABLE name it, and {} another",
                      path_, setting_);
  if (!is_cache() && !table->machine.empty())
    return make_error(Code::kInvalidArgument,
                      "{} has verdicts of trials: let TUTTI_TUNING_FILE name it, and {} another",
                      path_, setting_);
  if (!is_cache()) return table;
  if (table->machine != machine_) return MeasuredTable();
  const std::int64_t now = seconds_since_1970();
  table->keep_measured(now - kStaysTrue, now + kClocksDiffer);
  return table;
}

void MeasuredStore::load_once() {
  if (std::exchange(loaded_, true) || path_.empty()) return;
  const auto text = contents();
  auto known = text ? parse(*text) : Result<MeasuredTable>(text.error());
  if (known) {
    if (!known->ranges().empty())
      log_info(Subsystem::kTuning, "", "{} measured ranges are known from {}",
               known->ranges().size(), path_);
    return merge(*std::move(known));
  }
  const bool anew = is_cache();
  const std::string what = fmt::format(
      "{}; {}", known.error().what,
      anew ? "what it should say is measured anew" : "algorithms are chosen without it");
  if (anew && known.error().code == Code::kUnavailable)
    log_info(Subsystem::kTuning, "", "{}", what);
  else
    log_warn("", "{}", what);
}

/// Of two ranges that were measured at the same time, the process's own counts.
void MeasuredStore::merge(MeasuredTable known) {
  known.merge(table_);
  known.machine = machine_;
  table_ = std::move(known);
}

Status MeasuredStore::save() {
  const std::scoped_lock writing(writing_);
  std::error_code ignored;  // what is missing then shows at once
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  if (const auto mine = own_contents(); !mine) return mine.error();
  const std::string next = path_ + ".new";
  TUTTI_ASSIGN(const Fd file, lock_new_file(next));
  if (!file) return ok_status();  // this range goes with the next one
  const Status replaced = replace_by(file, next);
  if (!replaced) ::unlink(next.c_str());  // or half of it would stay, on a full disk at that
  return replaced;
}

Status MeasuredStore::replace_by(const Fd& file, const std::string& next) {
  TUTTI_ASSIGN(const std::string there, own_contents());
  std::string text;
  {
    const std::scoped_lock lock(mutex_);
    if (auto others = parse(there)) merge(*std::move(others));
    text = table_.text();
  }
  if (::ftruncate(file.get(), 0) != 0)
    return system_error(Code::kUnavailable, errno, fmt::format("cannot write {}", next));
  TUTTI_TRY(write_all(file, next, text));
  if (::rename(next.c_str(), path_.c_str()) != 0)
    return system_error(Code::kUnavailable, errno, fmt::format("cannot replace {}", path_));
  return ok_status();
}

}  // namespace tutti
