// How a number came about, hashed: two values with the same recipe have the same bits. Replays of
// schedules and of lowered programs follow recipes, so they can be compared.
#pragma once

#include <cstdint>

#include "src/ir/schedule.hpp"

namespace tutti::ir {

using Recipe = std::uint64_t;

namespace recipe_parts {
constexpr Recipe scrambled(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
}  // namespace recipe_parts

constexpr Recipe recipe_of_input(Rank rank, std::uint32_t chunk) {
  return recipe_parts::scrambled((static_cast<std::uint64_t>(rank) << 32 | chunk) +
                                 0x9e3779b97f4a7c15);
}
/// Addition is commutative, but not associative.
constexpr Recipe recipe_of_sum(Recipe a, Recipe b) {
  return recipe_parts::scrambled(a + b) ^ recipe_parts::scrambled(~(a ^ b));
}
/// A sum that the network adds in any order: the wrapping sum of these over the addends.
constexpr Recipe recipe_in_any_order(Recipe a) {
  return recipe_parts::scrambled(a + 0x2545f4914f6cdd1d);
}
/// After a rank converted it into a format. Another rank may round the same number otherwise, where
/// it rounds at random. Converting back to plain changes no number, so it changes no recipe.
constexpr Recipe recipe_in(FormatId format, Rank rank, Recipe a) {
  return recipe_parts::scrambled(a + 0x9e3779b97f4a7c15 * format +
                                 0xd1342543de82ef95 * (static_cast<std::uint64_t>(rank) + 1));
}

}  // namespace tutti::ir
