// The options of a program: what it accepts, and how that becomes values. CLI11 does the work, and
// is compiled in one place: its headers take longer than the programs that use them.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/error.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tutti::tools {

/// What is said of an option after it was added. Each call returns the option, so that they chain.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required();
  /// Only these words; an error suggests the nearest one.
  Option one_of(std::vector<std::string> words);
  /// A finite number between these two, both included.
  Option in_range(double least, double most);
  Option excludes(Option other);
  Option needs(Option other);
  /// A list in one argument: a,b,c.
  Option comma_separated();
  Option hidden();
  /// --help shows the value that the variable has now.
  Option shows_default();
  /// What --help calls the value: FILE.
  Option value_name(std::string name);
  /// The heading under which --help lists it.
  Option group(std::string heading);

 private:
  CLI::Option* option_;  ///< the command line's
};

/// The command line of a program, or of one of its commands. Refers to the variables that options
/// set, which must outlive it.
class CommandLine {
 public:
  /// `name` as errors show it: "tutti topo".
  CommandLine(std::string description, std::string_view name);

  /// `names`: "-n,--ranks", or "COLL" for an argument by its position. T is one of those that
  /// command_line.cpp lists.
  template <class T>
  Option add_option(std::string names, T& value, std::string description);
  Option add_flag(std::string names, bool& value, std::string description = "");
  void set_footer(std::string text);
  /// An option that is given twice has its last value, so that scripts can add to what they were
  /// given. Holds for options added later.
  void let_last_value_count();
  /// Programs with commands need one. `name` is a word: "show".
  CommandLine add_command(std::string name, std::string description);

  [[nodiscard]] std::string name() const;
  /// Of a command: whether the user named it.
  [[nodiscard]] bool is_chosen() const;

  /// Sets the variables. `arguments` begin with the program. Returns what --help or --version
  /// prints; "": go on. kInvalidArgument names what is wrong: an unknown option
  /// or command with the nearest name, an empty value.
  Result<std::string> read(std::span<const std::string> arguments);
  /// The same for main: prints what is to be said. nullopt: go on; otherwise return this exit code.
  std::optional<int> parse(std::span<const std::string> arguments);
  std::optional<int> parse(int argc, const char* const* argv);
  /// The same for a program that starts another: parses what stands before "--", and puts what
  /// follows, which must not be nothing, into `command`. `example` is for errors: "tutti run -n 4".
  std::optional<int> parse_with_command(int argc, const char* const* argv, std::string_view example,
                                        std::vector<std::string>& command);

 private:
  explicit CommandLine(std::shared_ptr<CLI::App> app) : app_(std::move(app)) {}

  std::shared_ptr<CLI::App> app_;
};

}  // namespace tutti::tools
