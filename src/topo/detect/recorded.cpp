#include "src/topo/detect/recorded.hpp"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "src/base/result.hpp"
#include "src/topo/model/words.hpp"

namespace tutti::topo {
namespace {

constexpr std::string_view kFirstLine = "tutti machine 1";
constexpr std::size_t kMostRecordedBytes = std::size_t{64} << 20U;
constexpr std::size_t kMostEntries = 200'000;
constexpr const char* kHwlocName = "hwloc.xml";
constexpr const char* kNvmlName = "nvml.json";

bool is_path(std::string_view path) {
  if (path == kHwlocName || path == kNvmlName) return true;
  return path.size() > 1 && path.size() <= 4096 && path.front() == '/' && path.back() != '/' &&
         path.back() != ':' &&
         std::ranges::none_of(path, [](char c) { return c <= ' ' && c >= 0; });
}

/// The lines of a text, one after the other.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}

  std::optional<std::string_view> next() {
    if (rest_.empty()) return std::nullopt;
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++number_;
    return line;
  }
  /// Of the line that next() gave last, from 1.
  [[nodiscard]] std::size_t number() const { return number_; }

 private:
  std::string_view rest_;
  std::size_t number_ = 0;
};

Error wrong_line(std::size_t number, std::string_view line, std::string_view why) {
  return make_error(Code::kInvalidArgument, "line {}: {}: {}", number, shown(line), why);
}

/// The lines up to one that is `end`, joined.
Result<std::string> until(Lines& lines, std::string_view end) {
  const std::size_t first = lines.number();
  std::string text;
  bool begun = false;
  while (const auto line = lines.next()) {
    if (*line == end) return text;
    if (std::exchange(begun, true)) text += '\n';
    text += *line;
  }
  return make_error(Code::kInvalidArgument, "line {}: a text begins that no line {} ends", first,
                    shown(end));
}

/// What stands after the path: "-> target", "! why" or "<<END" and the lines that follow.
Result<Recording::Entry> entry_of(Lines& lines, std::string_view line, std::string_view said) {
  if (said.starts_with("-> "))
    return Recording::Entry(Recording::SymbolicLink{std::string(said.substr(3))});
  if (said.starts_with("! "))
    return Recording::Entry(Recording::Failure{std::string(said.substr(2))});
  if (said.starts_with("<<") && said.size() > 2) {
    TUTTI_ASSIGN(std::string text, until(lines, said.substr(2)));
    return Recording::Entry(Recording::File{std::move(text)});
  }
  return wrong_line(lines.number(), line,
                    "after the path stands `: TEXT`, `-> TARGET`, `! REASON` or `<<END`");
}

Status parse_line(Lines& lines, std::string_view line, Recording& recording) {
  const std::size_t number = lines.number();
  const std::size_t space = line.find(' ');
  std::string_view path = line.substr(0, space);
  const std::string_view said = space == line.npos ? "" : line.substr(space + 1);
  Recording::Entry entry;
  if (path.ends_with(':')) {
    path.remove_suffix(1);
    entry = Recording::File{std::string(said)};
  } else if (path.ends_with('/') && space == line.npos) {
    path.remove_suffix(1);
  } else {
    TUTTI_ASSIGN(entry, entry_of(lines, line, said));
  }
  if (!is_path(path))
    return wrong_line(number, line,
                      "a path is absolute and has no spaces and no : or / at its end");
  if (recording.entries().size() >= kMostEntries)
    return wrong_line(number, line, fmt::format("more than {} entries", kMostEntries));
  recording.add(std::string(path), std::move(entry));
  return ok_status();
}

bool has_line(std::string_view text, std::string_view wanted) {
  Lines lines(text);
  while (const auto line = lines.next())
    if (*line == wanted) return true;
  return false;
}

std::string line_for(const std::string& path, const Recording::Entry& entry) {
  if (const auto* link = std::get_if<Recording::SymbolicLink>(&entry))
    return fmt::format("{} -> {}\n", path, link->target);
  if (const auto* failure = std::get_if<Recording::Failure>(&entry))
    return fmt::format("{} ! {}\n", path, failure->why);
  const auto* file = std::get_if<Recording::File>(&entry);
  if (file == nullptr) return path + "/\n";
  if (file->text.empty()) return path + ":\n";
  if (file->text.find('\n') == std::string::npos) return fmt::format("{}: {}\n", path, file->text);
  std::string end = "END";
  while (has_line(file->text, end)) end += '_';
  return fmt::format("{0} <<{1}\n{2}\n{1}\n", path, end, file->text);
}

Error missing(const std::string& path) {
  return make_error(Code::kUnavailable, "cannot read {}: No such file or directory", path);
}

/// Fit for a line: control characters become ?, and line ends at the end go.
std::string printable(std::string text, bool one_line) {
  while (text.ends_with('\n')) text.pop_back();
  for (char& c : text)
    if ((c >= 0 && c < ' ' && c != '\t' && (c != '\n' || one_line)) || c == 0x7F) c = '?';
  return text;
}

/// What does not exist is not in a recording either.
void add_failure(Recording& recording, const std::string& path, const Error& error) {
  if (error.os_errno != ENOENT)
    recording.add(path, Recording::Failure{printable(error.what, true)});
}

}  // namespace

Result<Recording> Recording::parse(std::string_view text) {
  if (text.size() > kMostRecordedBytes)
    return make_error(Code::kInvalidArgument, "a recorded machine of {} bytes: at most {} are read",
                      text.size(), kMostRecordedBytes);
  Lines lines(text);
  if (lines.next() != kFirstLine)
    return make_error(Code::kInvalidArgument, "line 1: a recorded machine begins with {}",
                      shown(kFirstLine));
  Recording recording;
  while (const auto line = lines.next())
    if (!line->empty() && line->front() != '#') TUTTI_TRY(parse_line(lines, *line, recording));
  return recording;
}

std::string Recording::text() const {
  std::string text = std::string(kFirstLine) + "\n";
  for (const auto& [path, entry] : entries_) text += line_for(path, entry);
  return text;
}

void Recording::add(const std::string& path, Entry entry) {
  if (!is_path(path)) return;
  if (std::holds_alternative<Directory>(entry))
    entries_.try_emplace(path, entry);
  else
    entries_.insert_or_assign(path, std::move(entry));
}

Result<std::string> RecordedProbe::read_file(const std::string& path) {
  const auto found = recording_.entries().find(path);
  if (found == recording_.entries().end()) return missing(path);
  if (const auto* failure = std::get_if<Recording::Failure>(&found->second))
    return make_error(Code::kUnavailable, "{}", failure->why);
  if (const auto* file = std::get_if<Recording::File>(&found->second)) return file->text;
  return make_error(Code::kUnavailable, "cannot read {}: it is no regular file", path);
}

Result<std::vector<std::string>> RecordedProbe::list(const std::string& path) {
  const auto& entries = recording_.entries();
  const auto itself = entries.find(path);
  if (itself != entries.end())
    if (const auto* failure = std::get_if<Recording::Failure>(&itself->second))
      return make_error(Code::kUnavailable, "{}", failure->why);
  const std::string prefix = path + "/";
  std::vector<std::string> names;
  for (auto entry = entries.lower_bound(prefix);
       entry != entries.end() && entry->first.starts_with(prefix); ++entry) {
    std::string name = entry->first.substr(prefix.size());
    name.resize(std::min(name.find('/'), name.size()));
    if (names.empty() || names.back() != name) names.push_back(std::move(name));
  }
  if (names.empty() && itself == entries.end()) return missing(path);
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

Result<std::string> RecordedProbe::link_target(const std::string& path) {
  const auto found = recording_.entries().find(path);
  if (found == recording_.entries().end()) return missing(path);
  if (const auto* link = std::get_if<Recording::SymbolicLink>(&found->second)) return link->target;
  return make_error(Code::kUnavailable, "cannot read {}: it is no symbolic link", path);
}

Result<std::string> RecordedProbe::hwloc_xml() { return read_file(kHwlocName); }

Result<std::vector<cuda::GpuFacts>> RecordedProbe::gpus() {
  TUTTI_ASSIGN(const std::string json, read_file(kNvmlName));
  return gpus_from_json(json);
}

Result<std::string> RecordingProbe::read_file(const std::string& path) {
  auto text = system_.read_file(path);
  if (text)
    recording_.add(path, Recording::File{printable(*text, false)});
  else
    add_failure(recording_, path, text.error());
  return text;
}

Result<std::vector<std::string>> RecordingProbe::list(const std::string& path) {
  auto names = system_.list(path);
  if (!names) {
    add_failure(recording_, path, names.error());
    return names;
  }
  if (names->empty()) recording_.add(path, Recording::Directory{});
  for (const std::string& name : *names) recording_.add(path + "/" + name, Recording::Directory{});
  return names;
}

Result<std::string> RecordingProbe::link_target(const std::string& path) {
  auto target = system_.link_target(path);
  if (target)
    recording_.add(path, Recording::SymbolicLink{printable(*target, true)});
  else
    add_failure(recording_, path, target.error());
  return target;
}

Result<std::string> RecordingProbe::hwloc_xml() {
  auto xml = system_.hwloc_xml();
  if (xml)
    recording_.add(kHwlocName, Recording::File{printable(*xml, false)});
  else
    add_failure(recording_, kHwlocName, xml.error());
  return xml;
}

Result<std::vector<cuda::GpuFacts>> RecordingProbe::gpus() {
  auto gpus = system_.gpus();
  if (gpus)
    recording_.add(kNvmlName, Recording::File{gpus_as_json(*gpus)});
  else
    add_failure(recording_, kNvmlName, gpus.error());
  return gpus;
}

}  // namespace tutti::topo
