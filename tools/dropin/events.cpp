#include "tools/dropin/events.hpp"

#include <charconv>
#include <map>

namespace tutti::tools {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<long> parse_pid(std::string_view text) {
  long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

class Parser {
 public:
  /// `fields`: process id, kind, and what the kind has.
  void add(const std::vector<std::string_view>& fields) {
    if (fields.size() < 3) return;
    const std::optional<long> pid = parse_pid(fields[0]);
    if (!pid) return;
    const std::string_view kind = fields[1];
    if (kind == "start") return begin(*pid, std::string(fields[2]), std::nullopt);
    if (kind == "fork") return fork(*pid, parse_pid(fields[2]));
    const auto current = current_.find(*pid);
    if (current != current_.end()) add_to(processes_[current->second], kind, fields);
  }
  std::vector<AuditedProcess> take() { return std::move(processes_); }

 private:
  void begin(long pid, std::string program, std::optional<std::size_t> forked_from) {
    current_[pid] = processes_.size();
    AuditedProcess& process = processes_.emplace_back();
    process.pid = pid;
    process.program = std::move(program);
    process.forked_from = forked_from;
  }

  void fork(long pid, std::optional<long> parent) {
    const auto found = parent ? current_.find(*parent) : current_.end();
    if (found != current_.end()) begin(pid, processes_[found->second].program, found->second);
  }

  static void add_to(AuditedProcess& process, std::string_view kind,
                     const std::vector<std::string_view>& fields) {
    const auto field = [&](std::size_t index) { return std::string(fields[index]); };
    if (kind == "search") process.searches.push_back(field(2));
    if (kind == "object" && fields.size() == 9)
      process.objects.push_back({.path = field(2),
                                 .requester = field(3),
                                 .found_by = field(4),
                                 .soname = field(5),
                                 .rpath = field(6),
                                 .runpath = field(7),
                                 .needs_tutti = fields[8] == "tutti"});
    if (kind == "need" && fields.size() == 5)
      process.uses.push_back({.name = field(3),
                              .by = field(2),
                              .use = fields[4] == "weak" ? Use::kWeak : Use::kLinked,
                              .provider = ""});
    if (kind == "bind" && fields.size() == 6)
      process.uses.push_back({.name = field(4),
                              .by = field(2),
                              .use = fields[5] == "dlsym" ? Use::kDlsym : Use::kLinked,
                              .provider = field(3)});
  }

  std::vector<AuditedProcess> processes_;
  std::map<long, std::size_t> current_;  ///< what each process id is now
};

}  // namespace

std::vector<AuditedProcess> parse_events(std::string_view text) {
  Parser parser;
  for (const std::string_view line : split(text, '\n')) parser.add(split(line, '\t'));
  return parser.take();
}

}  // namespace tutti::tools
