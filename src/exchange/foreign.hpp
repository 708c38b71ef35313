// What the readers of foreign formats share: naming places in a text, and their result type.
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
/// most chunks that all steps may name; a short step can name many
inline constexpr std::uint64_t kMostNamed = std::uint64_t{1} << 22;

/// One verified schedule for each placement of buffers that the file serves, out of place first.
using Schedules = std::vector<ir::Schedule>;

/// "line 3 column 7" for a byte offset in the text.
std::string place_in(std::string_view text, std::size_t offset);

/// Prefixes an error with the place that it refers to.
Error at_place(std::string_view place, const Error& error);

/// A name that all our formats can hold: at most 64 letters, digits, '_', '-' and '.'; other
/// characters become '_'. "imported" when it is empty.
std::string plain_name(std::string_view name);

/// A foreign word made safe for messages: at most 40 printable characters.
std::string shown(std::string_view word);

}  // namespace tutti::exchange
