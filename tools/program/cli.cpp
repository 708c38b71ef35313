#include "tools/program/cli.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "src/base/fd.hpp"
#include "src/base/nearest.hpp"
#include "src/base/printable.hpp"
#include "src/base/result.hpp"
#include "src/base/whole_file.hpp"

namespace tutti::tools {
namespace {

std::vector<std::string> names_in(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

const CLI::App& innermost(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : innermost(*chosen.front());
}

std::string suggestion(std::string_view word, const std::vector<std::string>& names) {
  const std::string meant = nearest(word, names);
  return meant.empty() ? "" : fmt::format("; did you mean '{}'?", meant);
}

std::string describe_unknown(const CLI::App& app, std::string word) {
  word = word.substr(0, word.find('='));
  const std::string_view kind = word.starts_with('-') ? "option" : "argument";
  return fmt::format("unknown {} '{}'{}", kind, word, suggestion(word, names_in(app)));
}

/// The first option of the command, or of one below it, that was given an empty value; "" for none.
std::string option_without_value(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options())
    for (const std::string& value : option->results())
      if (value.empty()) return option->get_name();
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? "" : option_without_value(*chosen.front());
}

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

int print_or_fail(std::string_view program, std::string_view text) {
  const Status printed = print(text);
  return printed ? kExitFine : fail(program, printed.error());
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

std::optional<int> parse(CLI::App& app, int argc, const char* const* argv) {
  app.set_version_flag("--version", version_line());
  app.get_formatter()->column_width(34);
  try {
    app.parse(argc, argv);
    const std::string empty = option_without_value(app);
    if (empty.empty()) return std::nullopt;
    return fail(app.get_name(), kExitUsage,
                fmt::format("the value of {} is empty: give it one, or leave it out", empty));
  } catch (const CLI::CallForVersion&) {
    return print_or_fail(app.get_name(), version_line() + "\n");
  } catch (const CLI::Success&) {  // --help
    return print_or_fail(app.get_name(), app.help());
  } catch (const CLI::ParseError& error) {
    const CLI::App& command = innermost(app);
    const std::vector<std::string> unknown = app.remaining(true);
    const std::string message =
        unknown.empty() ? error.what() : describe_unknown(command, unknown.front());
    fail(app.get_name(), kExitUsage, message);
    note(
        fmt::format("'{} --help' lists what there is.\n",
                    &command == &app ? app.get_name() : app.get_name() + " " + command.get_name()));
    return kExitUsage;
  }
}

std::optional<int> parse_with_command(CLI::App& app, int argc, char** argv,
                                      std::string_view example, std::vector<std::string>& command) {
  const std::span<char*> arguments(argv, static_cast<std::size_t>(argc));
  const auto dashes = std::ranges::find(arguments, std::string_view("--"));
  // Without it the user has to be told.
  const bool has_command = dashes != arguments.end();
  app.allow_extras(!has_command);
  if (const auto code = parse(app, static_cast<int>(dashes - arguments.begin()), argv)) return code;

  const auto extras = app.remaining();
  if (!extras.empty())
    return fail(app.get_name(), kExitUsage,
                fmt::format("unknown {} '{}'; put the command after '--', as in: {} -- ./program",
                            extras.front().starts_with('-') ? "option" : "argument", extras.front(),
                            example));
  if (!has_command || dashes + 1 == arguments.end())
    return fail(
        app.get_name(), kExitUsage,
        fmt::format("no command given; put it after '--', as in: {} -- ./program", example));
  command.assign(dashes + 1, arguments.end());
  return std::nullopt;
}

CLI::Validator one_of(std::vector<std::string> words) {
  const std::string listed = fmt::format("{}", fmt::join(words, "|"));
  return {[words = std::move(words), listed](std::string& word) {
            if (std::ranges::find(words, word) != words.end()) return std::string();
            return fmt::format("'{}' is not one of {}{}", word, listed, suggestion(word, words));
          },
          listed};
}

CLI::Validator in_range(double least, double most) {
  const std::string listed = fmt::format("{:g}..{:g}", least, most);
  return {[least, most, listed](std::string& word) {
            double value = 0;
            const bool number = CLI::detail::lexical_cast(word, value);
            if (number && std::isfinite(value) && value >= least && value <= most)
              return std::string();
            return fmt::format("'{}' is not a number in {}", word, listed);
          },
          listed};
}

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
