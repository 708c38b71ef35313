#include "tools/program/command_line.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "src/base/nearest.hpp"
#include "src/base/result.hpp"
#include "tools/program/cli.hpp"

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

/// As the user types it: "tutti algo show".
std::string full_name(const CLI::App& app) {
  const CLI::App& command = innermost(app);
  return &command == &app ? app.get_name() : app.get_name() + " " + command.get_name();
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

int print_or_fail(const std::string& program, std::string_view text) {
  const Status printed = print(text);
  return printed ? kExitFine : fail(program, printed.error());
}

}  // namespace

Option Option::required() {
  option_->required();
  return *this;
}

Option Option::one_of(std::vector<std::string> words) {
  const std::string listed = fmt::format("{}", fmt::join(words, "|"));
  const auto check = [words = std::move(words), listed](std::string& word) {
    if (std::ranges::find(words, word) != words.end()) return std::string();
    return fmt::format("'{}' is not one of {}{}", word, listed, suggestion(word, words));
  };
  option_->check(CLI::Validator(check, listed));
  return *this;
}

Option Option::in_range(double least, double most) {
  const std::string listed = fmt::format("{}..{}", least, most);
  const auto check = [least, most, listed](std::string& word) {
    double value = 0;
    const bool is_number = CLI::detail::lexical_cast(word, value);
    if (is_number && std::isfinite(value) && value >= least && value <= most) return std::string();
    return fmt::format("'{}' is not a number in {}", word, listed);
  };
  option_->check(CLI::Validator(check, listed));
  return *this;
}

Option Option::excludes(Option other) {
  option_->excludes(other.option_);
  return *this;
}

Option Option::needs(Option other) {
  option_->needs(other.option_);
  return *this;
}

Option Option::comma_separated() {
  option_->delimiter(',')->allow_extra_args(false);
  return *this;
}

Option Option::hidden() { return group(""); }

Option Option::shows_default() {
  option_->capture_default_str();
  return *this;
}

Option Option::value_name(std::string name) {
  option_->type_name(std::move(name));
  return *this;
}

Option Option::group(std::string heading) {
  option_->group(std::move(heading));
  return *this;
}

CommandLine::CommandLine(std::string description, std::string_view name)
    : app_(std::make_shared<CLI::App>(std::move(description), std::string(name))) {
  app_->set_version_flag("--version", version_line());
  app_->get_formatter()->column_width(34);
}

template <class T>
Option CommandLine::add_option(std::string names, T& value, std::string description) {
  return Option(app_->add_option(std::move(names), value, std::move(description)));
}
template Option CommandLine::add_option(std::string, std::string&, std::string);
template Option CommandLine::add_option(std::string, std::optional<std::string>&, std::string);
template Option CommandLine::add_option(std::string, std::vector<std::string>&, std::string);
template Option CommandLine::add_option(std::string, int&, std::string);
template Option CommandLine::add_option(std::string, std::optional<int>&, std::string);
template Option CommandLine::add_option(std::string, unsigned&, std::string);
template Option CommandLine::add_option(std::string, std::int64_t&, std::string);
template Option CommandLine::add_option(std::string, std::uint64_t&, std::string);
template Option CommandLine::add_option(std::string, std::optional<std::uint64_t>&, std::string);
template Option CommandLine::add_option(std::string, double&, std::string);
template Option CommandLine::add_option(std::string, std::optional<double>&, std::string);

Option CommandLine::add_flag(std::string names, bool& value, std::string description) {
  return Option(app_->add_flag(std::move(names), value, std::move(description)));
}

void CommandLine::set_footer(std::string text) { app_->footer(std::move(text)); }

void CommandLine::let_last_value_count() { app_->option_defaults()->take_last(); }

CommandLine CommandLine::add_command(std::string name, std::string description) {
  CommandLine command(std::make_shared<CLI::App>(std::move(description), std::move(name)));
  command.app_->formatter(app_->get_formatter());
  app_->add_subcommand(command.app_);
  app_->require_subcommand(1);
  return command;
}

std::string CommandLine::name() const { return app_->get_name(); }

bool CommandLine::is_chosen() const { return app_->parsed(); }

Result<std::string> CommandLine::read(std::span<const std::string> arguments) {
  const auto words = arguments.subspan(std::min<std::size_t>(arguments.size(), 1));
  try {
    app_->parse(std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11's order
  } catch (const CLI::CallForVersion&) {
    return version_line() + "\n";
  } catch (const CLI::Success&) {  // --help
    return app_->help();
  } catch (const CLI::ParseError& error) {
    const std::vector<std::string> unknown = app_->remaining(true);
    return make_error(
        Code::kInvalidArgument, "{}",
        unknown.empty() ? error.what() : describe_unknown(innermost(*app_), unknown.front()));
  }
  const std::string empty = option_without_value(*app_);
  if (empty.empty()) return std::string();
  return make_error(Code::kInvalidArgument,
                    "the value of {} is empty: give it one, or leave it out", empty);
}

std::optional<int> CommandLine::parse(std::span<const std::string> arguments) {
  const auto said = read(arguments);
  if (!said) {
    fail(name(), said.error());
    note(fmt::format("'{} --help' lists what there is.\n", full_name(*app_)));
    return kExitUsage;
  }
  return said->empty() ? std::nullopt : std::optional(print_or_fail(name(), *said));
}

std::optional<int> CommandLine::parse(int argc, const char* const* argv) {
  return parse(std::vector<std::string>(argv, argv + argc));
}

std::optional<int> CommandLine::parse_with_command(int argc, const char* const* argv,
                                                   std::string_view example,
                                                   std::vector<std::string>& command) {
  const std::span arguments(argv, static_cast<std::size_t>(argc));
  const auto dashes = std::ranges::find(arguments, std::string_view("--"));
  // Without it the user has to be told.
  const bool has_command = dashes != arguments.end();
  app_->allow_extras(!has_command);
  if (const auto code = parse(static_cast<int>(dashes - arguments.begin()), argv)) return code;

  const auto extras = app_->remaining();
  if (!extras.empty())
    return fail(name(), kExitUsage,
                fmt::format("unknown {} '{}'; put the command after '--', as in: {} -- ./program",
                            extras.front().starts_with('-') ? "option" : "argument", extras.front(),
                            example));
  if (!has_command || dashes + 1 == arguments.end())
    return fail(
        name(), kExitUsage,
        fmt::format("no command given; put it after '--', as in: {} -- ./program", example));
  command.assign(dashes + 1, arguments.end());
  return std::nullopt;
}

}  // namespace tutti::tools
