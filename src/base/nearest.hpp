// "did you mean": finds the candidate closest to a mistyped word.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tutti {

/// Number of insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`
/// (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate with the smallest distance; the earlier one on a tie. "" when the distance exceeds
/// a third of the word's length (at least 1), so nonsense gets no suggestion.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace tutti
