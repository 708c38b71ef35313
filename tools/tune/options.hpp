// The command line of tutti-tune.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/bench/options.hpp"
#include "tools/tune/meter.hpp"
#include "tutti/error.hpp"

namespace tutti::tune {

inline constexpr const char* kProgram = "tutti tune";

/// What to do, as asked for. Value.
struct Options {
  bench::Options bench;  ///< collectives, sizes, ranks and how they start
  MeterOptions meter;
  bool check = false;  ///< judge the choice instead of storing a table
  double expected_percent =
      -1;  ///< with check: fail when the mean regret is above; < 0: any will do
  std::vector<std::string> merge;  ///< files to put together instead of measuring
  std::string output;              ///< file of the table; "": where the library looks for it
  std::string json;                ///< file, "-" for standard output, "" for none
};

/// nullopt: all is said, and this is the exit code.
std::optional<int> parse_options(std::span<const std::string> arguments, Options& options);

}  // namespace tutti::tune
