// Finds what the arguments of `tutti algo` name: algorithms, collectives, layouts, files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/exchange/read.hpp"
#include "src/ir/algorithm.hpp"
#include "tools/program/cli.hpp"
#include "tutti/error.hpp"

namespace tutti::tools {

/// Of ranks: a schedule of an all-to-all grows with the square.
inline constexpr int kMostAlgoRanks = 1024;

/// kInvalidArgument with the nearest name.
Result<const ir::Algorithm*> find_algorithm(const std::string& name);

/// Of all collectives that have schedules.
std::vector<std::string> collective_names();
/// `name` must be one of collective_names().
Collective collective_named(const std::string& name);

/// The collectives that the algorithm supports for some number of ranks up to 33, or for 2 nodes of
/// 2 ranks.
std::vector<Collective> collectives_of(const ir::Algorithm& algorithm);

/// What an algorithm must know of how its ranks stand to each other.
enum class Needs { kNothing, kNodes, kGrid };
Needs needs_of(const ir::Algorithm& algorithm);
/// "any ranks", "two levels", "grid"
std::string_view name_of(Needs needs);

/// The layout that was written, or an empty one. kInvalidArgument where it is none, or has more
/// than kMostAlgoRanks ranks.
Result<ir::Layout> layout_named(const std::string& text);

/// The path of the file that the word names rather than an algorithm: file:PATH as in TUTTI_ALGO, a
/// file that exists, or a word with a dot or a slash, which no algorithm has. None: an algorithm.
std::optional<std::string> file_named(const std::string& what);
/// Of an accepted file, in bytes.
inline constexpr std::size_t kLargestAlgoFile = 256U << 20U;
/// The schedules of a file's text; errors name the file, and are kWrongData where it is malformed.
/// Notes what was skipped.
Result<exchange::Schedules> schedules_of(const std::string& path, const std::string& text);

}  // namespace tutti::tools
