#include "src/cost/tuning_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "src/base/cpus.hpp"
#include "src/base/fd.hpp"
#include "src/base/log.hpp"
#include "src/base/result.hpp"

namespace tutti {
namespace {

using Json = nlohmann::json;

constexpr int kVerdictsFormat = 4;
constexpr std::string_view kMark = "{\"format\": ";  // how files begin, and nobody's notes
constexpr std::size_t kMostVerdicts = 4096, kLongestAlgorithmName = 64;
// A verdict takes some 220 bytes, and with the longest name, all of it escaped, less than 640.
constexpr std::size_t kMostBytes = kMostVerdicts * 640;
constexpr std::int64_t kStaysTrue = 7 * 24 * 3600;  // seconds: machines are changed and moved
constexpr std::int64_t kClocksDiffer = 60;

std::int64_t now_s() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch())
      .count();
}

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (const auto colon = line.find(": "); line.starts_with("model name") && colon != line.npos)
      return line.substr(colon + 2);
  return "";
}

/// -1 for what is none, which no value here may be.
std::int64_t integer_of(const Json& value) {
  return value.is_number_integer() ? value.get<std::int64_t>() : -1;
}

Result<Verdict> verdict_of(const Json& entry) {
  Verdict verdict;
  const std::string name = entry.at("collective").get<std::string>();
  int collective = 0;
  while (collective < kCollectives && name_of(static_cast<Collective>(collective)) != name)
    ++collective;
  const auto ranks = integer_of(entry.at("ranks"));
  const auto size = integer_of(entry.at("log2_bytes"));
  const auto hosts = integer_of(entry.at("hosts"));
  const auto most_on_a_host = integer_of(entry.at("most_on_a_host"));
  const auto machines = integer_of(entry.at("machines"));
  const auto mbit_per_s = integer_of(entry.at("mbit_per_s"));
  verdict.way.algorithm = entry.at("algorithm").get<std::string>();
  verdict.way.kernel_reads = entry.at("kernel_reads").get<bool>();
  verdict.measured_s = integer_of(entry.at("measured"));
  const bool valid = collective < kCollectives && ranks > 0 && ranks <= INT32_MAX && size >= 0 &&
                     size <= kLargestSize && hosts > 0 && hosts <= ranks && most_on_a_host > 0 &&
                     most_on_a_host <= ranks && machines > 0 && machines <= hosts &&
                     mbit_per_s >= 0 && mbit_per_s <= UINT32_MAX &&
                     verdict.way.algorithm.size() <= kLongestAlgorithmName;
  if (!valid) return make_error(Code::kInvalidArgument, "a value is out of its range");
  verdict.of = {static_cast<Collective>(collective),       static_cast<std::int32_t>(ranks),
                static_cast<std::uint8_t>(size),           static_cast<std::int32_t>(hosts),
                static_cast<std::int32_t>(most_on_a_host), static_cast<std::int32_t>(machines),
                static_cast<std::uint32_t>(mbit_per_s)};
  return verdict;
}

Result<std::vector<Verdict>> verdicts_of(const Json& file, std::string_view machine) {
  const std::int64_t format = integer_of(file.at("format"));
  if (format >= 1 && format < kVerdictsFormat)
    return std::vector<Verdict>();  // which told less apart
  if (format != kVerdictsFormat)
    return make_error(Code::kInvalidArgument, "its format is not {}", kVerdictsFormat);
  if (file.at("machine").get<std::string>() != machine) return std::vector<Verdict>();
  const Json& entries = file.at("verdicts");
  if (!entries.is_array()) return make_error(Code::kInvalidArgument, "its verdicts are no list");
  std::vector<Verdict> verdicts;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::string why;
    try {
      auto verdict = verdict_of(entries[i]);
      if (verdict) {
        verdicts.push_back(*std::move(verdict));
        continue;
      }
      why = verdict.error().what;
    } catch (const Json::exception& error) {
      why = error.what();
    }
    return make_error(Code::kInvalidArgument, "verdict {}: {}", i + 1, why);
  }
  return verdicts;
}

/// "" where there is no file; no more of a large one than `most` bytes. Devices and pipes are none
/// to be read, and may block whoever does. `setting` names the path.
Result<std::string> contents_of(const std::string& path, std::size_t most = kMostBytes,
                                std::string_view setting = "TUTTI_TUNING_FILE") {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file && (errno == ENOENT || errno == ENOTDIR)) return std::string();
  struct stat about = {};
  if (!file || ::fstat(file.get(), &about) != 0)
    return system_error(Code::kUnavailable, errno, fmt::format("cannot read {}", path));
  if (!S_ISREG(about.st_mode))
    return make_error(Code::kInvalidArgument, "{} is no regular file: let {} name one, or none",
                      path, setting);
  std::string text;
  std::array<char, 16384> part{};
  while (text.size() < most) {
    const ssize_t got = ::read(file.get(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return system_error(Code::kUnavailable, errno, fmt::format("cannot read {}", path));
    if (got == 0) break;
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  return text;
}

/// The same where nothing of somebody else is there, which is not to be replaced.
Result<std::string> own_contents_of(const std::string& path) {
  TUTTI_ASSIGN(std::string text, contents_of(path));
  const std::string_view mark = kMark.substr(0, text.size());  // it may be cut anywhere
  if (text.starts_with(mark)) return text;
  return make_error(Code::kInvalidArgument,
                    "{} is no tuning file and stays as it is: let TUTTI_TUNING_FILE name another",
                    path);
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

Status write_all(int file, std::string_view text, const std::string& path) {
  if (::ftruncate(file, 0) != 0)
    return system_error(Code::kUnavailable, errno, fmt::format("cannot write {}", path));
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      return system_error(Code::kUnavailable, errno, fmt::format("cannot write {}", path));
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return ok_status();
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

namespace {

/// Of that machine, in the user's folder for what can be made anew.
std::string cache_file(const std::string& setting, const Environment& environment,
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

}  // namespace

std::string tuning_file(const std::string& setting, const Environment& environment,
                        std::string_view machine) {
  return cache_file(setting, environment, machine, ".json");
}

std::string table_file(const std::string& setting, const Environment& environment,
                       std::string_view machine) {
  return cache_file(setting, environment, machine, ".table.json");
}

MeasuredTable TableStore::table() {
  const std::scoped_lock lock(mutex_);
  if (std::exchange(loaded_, true) || path_.empty()) return table_;
  const auto text = contents_of(path_, kMostTableBytes + 1, "TUTTI_TUNING_TABLE");
  if (!text) {
    log_warn("", "{}; algorithms are chosen without it", text.error().what);
    return table_;
  }
  if (text->empty()) return table_;
  auto table = MeasuredTable::parse(*text);
  if (!table) {
    log_warn("", "{} is no table of `tutti tune`, and algorithms are chosen without it: {}", path_,
             table.error().what);
    return table_;
  }
  table_ = *std::move(table);
  log_info(Subsystem::kTuning, "", "{} measured ranges are known from {}", table_.ranges().size(),
           path_);
  return table_;
}

std::string tuning_text(std::string_view machine, const std::vector<Verdict>& verdicts) {
  const auto quoted = [](std::string_view text) {
    return Json(text).dump(-1, ' ', true, Json::error_handler_t::replace);
  };
  std::string entries;
  for (const Verdict& verdict : verdicts)
    entries += fmt::format(
        "{}\n  {{\"collective\": \"{}\", \"ranks\": {}, \"hosts\": {}, \"most_on_a_host\": {}, "
        "\"machines\": {}, \"mbit_per_s\": {}, \"log2_bytes\": {}, \"algorithm\": {}, "
        "\"kernel_reads\": {}, \"measured\": {}}}",
        entries.empty() ? "" : ",", name_of(verdict.of.collective), verdict.of.ranks,
        verdict.of.hosts, verdict.of.most_on_a_host, verdict.of.machines, verdict.of.mbit_per_s,
        verdict.of.size, quoted(verdict.way.algorithm), verdict.way.kernel_reads,
        verdict.measured_s);
  return fmt::format("{}{},\n \"machine\": {},\n \"verdicts\": [{}]}}\n", kMark, kVerdictsFormat,
                     quoted(machine), entries);
}

Result<std::vector<Verdict>> parse_tuning(std::string_view text, std::string_view machine) {
  try {
    return verdicts_of(Json::parse(text), machine);
  } catch (const Json::exception& error) {  // its text names line and column
    return make_error(Code::kInvalidArgument, "{}", error.what());
  }
}

std::vector<Verdict> TuningStore::verdicts(std::int32_t ranks) {
  const std::scoped_lock lock(mutex_);
  load_once();
  std::vector<Verdict> chosen = newest_first();
  std::erase_if(chosen, [&](const Verdict& verdict) { return verdict.of.ranks != ranks; });
  return chosen;
}

std::vector<Verdict> TuningStore::newest_first() const {
  std::vector<Verdict> all;
  for (const auto& [of, verdict] : verdicts_) all.push_back(verdict);
  std::ranges::sort(all, std::ranges::greater(), &Verdict::measured_s);
  return all;
}

void TuningStore::forget_the_oldest() {
  if (verdicts_.size() <= kMostVerdicts) return;
  const std::vector<Verdict> all = newest_first();
  for (const Verdict& old : std::span(all).subspan(kMostVerdicts)) verdicts_.erase(old.of);
}

std::size_t TuningStore::size() {
  const std::scoped_lock lock(mutex_);
  load_once();
  return verdicts_.size();
}

void TuningStore::add(const Verdict& verdict, bool keep) {
  {
    const std::scoped_lock lock(mutex_);
    if (keep) load_once();
    verdicts_[verdict.of] = verdict;
    forget_the_oldest();
  }
  if (!keep || path_.empty()) return;
  if (const Status saved = save(); !saved)
    log_info(Subsystem::kTuning, "", "what was measured is not kept: {}", saved.error().what);
}

void TuningStore::load_once() {
  if (std::exchange(loaded_, true) || path_.empty()) return;
  const auto text = contents_of(path_);
  if (!text && text.error().code == Code::kUnavailable)
    return log_info(Subsystem::kTuning, "", "{}: what it should say is measured anew",
                    text.error().what);
  if (!text) return log_warn("", "{}; what it should say is measured anew", text.error().what);
  if (text->empty()) return;
  const auto verdicts = parse_tuning(*text, machine_);
  if (!verdicts)
    return log_warn("", "{} is damaged, and what it should say is measured anew: {}", path_,
                    verdicts.error().what);
  merge(*verdicts);
  log_info(Subsystem::kTuning, "", "{} verdicts of {} are known from {}", verdicts_.size(),
           machine_, path_);
}

/// The newer verdict of each class.
void TuningStore::merge(const std::vector<Verdict>& verdicts) {
  const std::int64_t now = now_s();
  for (const Verdict& verdict : verdicts) {
    const bool true_still =
        verdict.measured_s <= now + kClocksDiffer && verdict.measured_s >= now - kStaysTrue;
    if (!true_still) continue;
    const auto [known, inserted] = verdicts_.try_emplace(verdict.of, verdict);
    if (!inserted && known->second.measured_s < verdict.measured_s) known->second = verdict;
  }
  forget_the_oldest();
}

Status TuningStore::save() {
  const std::scoped_lock writing(writing_);
  std::error_code ignored;  // what is missing then shows at once
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  if (const auto mine = own_contents_of(path_); !mine) return mine.error();
  const std::string next = path_ + ".new";
  TUTTI_ASSIGN(const Fd file, lock_new_file(next));
  if (!file) return ok_status();  // this verdict goes with the next one
  const Status replaced = replace_by(file.get(), next);
  if (!replaced) ::unlink(next.c_str());  // or half of it would stay, on a full disk at that
  return replaced;
}

Status TuningStore::replace_by(int file, const std::string& next) {
  TUTTI_ASSIGN(const std::string text, own_contents_of(path_));
  std::vector<Verdict> all;
  {
    const std::scoped_lock lock(mutex_);
    if (const auto others = parse_tuning(text, machine_)) merge(*others);
    for (const auto& [of, verdict] : verdicts_) all.push_back(verdict);
  }
  TUTTI_TRY(write_all(file, tuning_text(machine_, all), next));
  if (::rename(next.c_str(), path_.c_str()) != 0)
    return system_error(Code::kUnavailable, errno, fmt::format("cannot replace {}", path_));
  return ok_status();
}

}  // namespace tutti
