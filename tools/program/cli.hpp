// Shared by all programs of the `tutti` command: exit codes, tables, progress, and output files.
#pragma once

#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/whole_file.hpp"
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

/// Opens /dev/null for each of standard input, output and error that is closed, such that writing
/// to it still fails: otherwise the next file opened would be taken for it. First thing in main.
void hold_standard_descriptors();

/// Writes to standard error; what cannot be written there is lost, since nobody is left to tell.
void note(std::string_view text);
/// Writes to standard output at once.
Status print(std::string_view text);

/// Prints "PROGRAM: message" to standard error and returns the exit code that fits the error. What
/// could control a terminal is shown as \xNN.
int fail(std::string_view program, const Error& error);
int fail(std::string_view program, ExitCode code, std::string_view message);

/// What main does after its options are parsed: returns what `body` does, or says that memory ran
/// out and returns kExitEnvironment.
template <class Body>
int within_memory(std::string_view program, Body body) {
  constexpr std::string_view kRemedy =
      "there is not enough memory for this: ask for fewer ranks, sizes or steps";
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail(program, kExitEnvironment, kRemedy);
  } catch (const std::length_error&) {  // more than any memory holds
    return fail(program, kExitEnvironment, kRemedy);
  }
}

/// A path as messages show it: between quotes, control bytes as \xNN; "-" is standard output.
std::string shown_path(std::string_view path);

/// The error of a file whose content is wrong: exit code 3, unless memory or the file system is to
/// blame.
Error wrong_file(const std::string& path, const Error& error);

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

/// Where a program is, for someone who watches a terminal: a line of standard error, which clear()
/// takes away. Shows nothing elsewhere, or where NO_COLOR is set.
class ProgressBar {
 public:
  /// `on` false: never shows anything.
  explicit ProgressBar(bool on);
  void show(std::size_t done, std::size_t all, std::string_view what) const;
  void clear() const;

 private:
  bool on_;
};

/// Writes to `path`, "-" meaning standard output. The file is complete or the error says why not.
Status write_output(const std::string& path, std::string_view text);
/// The result of a program with --json FILE: `text` on standard output, unless `json_path` is "-";
/// and what `json` returns in `json_path`, unless that is "".
template <class MakeJson>
Status write_results(const std::string& json_path, std::string_view text, MakeJson json) {
  if (json_path != "-") {
    if (Status printed = print(text); !printed) return printed;
  }
  return json_path.empty() ? ok_status() : write_output(json_path, json());
}

/// An option that names a file to write; "" where it is not given.
struct Output {
  std::string_view option;  ///< "--svg"
  std::string path;
};
/// Asked before a long run: whether all can be written, as far as that shows without writing, and
/// no two to the same place. kInvalidArgument names two options, kUnavailable a path.
Status check_outputs(std::span<const Output> outputs);
/// The option whose file is standard output; "" where there is none.
std::string_view option_on_standard_output(std::span<const Output> outputs);

/// Whether write_output could write there, as far as that shows without writing: asked before a
/// long run.
Status check_writable(const std::string& path);

}  // namespace tutti::tools
