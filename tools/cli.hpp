// What the programs of the `tutti` command share: exit codes, option parsing with suggestions,
// tables, and where results are written.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "tutti/error.hpp"

namespace tutti::tools {

/// The same in every program (docs/architecture.md, "The command line").
enum ExitCode : int {
  kExitFine = 0,
  kExitOther = 1,
  kExitUsage = 2,
  kExitWrongData = 3,
  kExitSlow = 4,
  kExitEnvironment = 5,
  kExitPeer = 6,
};
ExitCode exit_code_of(const Error& error);

/// "tutti 0.1.0 (NCCL API 2.28.9)".
std::string version_line();

/// Parses the command line with --help and --version. nullopt: go on; otherwise return with this
/// exit code, all that is to be said having been said. An unknown option or command gets the
/// nearest name suggested.
std::optional<int> parse(CLI::App& app, int argc, const char* const* argv);

/// A validator that accepts only these words and suggests the nearest one.
CLI::Validator one_of(std::vector<std::string> words);

/// Prints "PROGRAM: message" to standard error and returns the exit code that fits the error.
int fail(std::string_view program, const Error& error);
int fail(std::string_view program, ExitCode code, std::string_view message);

/// Columns of text. The last column is never padded, so that lines have no trailing blanks.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// `right_aligned`: indices of columns that hold numbers.
  [[nodiscard]] std::string text(const std::vector<std::size_t>& right_aligned = {}) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// Writes to `path`, "-" meaning standard output. The file is complete or the error says why not.
Status write_output(const std::string& path, std::string_view text);
/// The whole file; at most `limit` bytes, beyond which it is refused.
Result<std::string> read_file(const std::string& path, std::size_t limit);

}  // namespace tutti::tools
