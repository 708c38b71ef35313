// What the readers of foreign formats share: how they name places in a text, and what they yield.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "src/ir/schedule.hpp"
#include "tutti/error.hpp"

namespace tutti::exchange {

inline constexpr std::size_t kLargestText = std::size_t{32} << 20;  ///< bytes of a file
inline constexpr std::int64_t kMostRanks = 1024;
inline constexpr std::uint64_t kMostSteps = std::uint64_t{1} << 20;  ///< over all ranks
/// Chunks that all steps name; a step that names many is short to write and long to run.
inline constexpr std::uint64_t kMostNamed = std::uint64_t{1} << 22;

/// One schedule for each way to place buffers that the file is for: out of place first. Each has
/// been verified.
using Schedules = std::vector<ir::Schedule>;

/// "line 3 column 7" of a byte of the text.
std::string place_in(std::string_view text, std::size_t offset);

/// Prefixes an error with the place that it is about.
Error at_place(std::string_view place, const Error& error);

/// A name that every format of ours can hold: at most 64 letters, digits, '_', '-' and '.'; others
/// become '_'. "imported" when there is none.
std::string plain_name(std::string_view name);

/// A foreign word fit to be shown in a message: at most 40 printable characters.
std::string shown(std::string_view word);

}  // namespace tutti::exchange
