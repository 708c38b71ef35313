// Runs one process of a measurement: its crews measure row after row together.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tools/bench/options.hpp"

namespace tutti::bench {

/// Of a file for Options::compare, in bytes.
inline constexpr std::size_t kLongestJson = 64 << 20;

/// Runs to the end and returns the exit code. `launched`: joins the job of the environment. Rank 0
/// writes the table, the JSON and the comparison.
int run_ranks(const Options& options, std::span<const std::string> arguments, bool launched);

}  // namespace tutti::bench
