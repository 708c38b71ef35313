// Message sizes on the command line: "8", "4K", "16M", and ranges of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tutti/error.hpp"

namespace tutti::tools {

/// Digits, then nothing or one of K M G (powers of 1024, either case, an optional B after it).
Result<std::size_t> parse_size(std::string_view text);

/// From `min` to `max` bytes: times `factor` when that is above 1, else plus `step`.
struct SizeRange {
  std::size_t min = 0;
  std::size_t max = 0;
  std::size_t step = 0;
  std::size_t factor = 1;
};

/// The sizes of a range in ascending order, `min` first; never empty. A size of 0 is followed by
/// `step`, or by 1 when the range multiplies. Errors: min above max, a range that cannot advance,
/// more than kMaxSizes sizes.
Result<std::vector<std::size_t>> sizes_of(const SizeRange& range);
inline constexpr std::size_t kMaxSizes = 100'000;

/// "8", "4K", "1536", "16M": the shortest exact form that parse_size reads back.
std::string size_text(std::size_t bytes);

}  // namespace tutti::tools
