// Ranks as people write them: "0-3, 7".
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// Ascending ranks as ranges; "none" when empty; at most `most` ranges, then "and 12 more".
std::string describe_ranks(std::span<const Rank> ascending, std::size_t most = 16);

/// The ranks that did not come, ascending. `came[r]`: whether rank r came. `names[r]`: what it is
/// called; without names, r.
std::vector<Rank> absent_ranks(const std::vector<bool>& came, std::span<const Rank> names = {});

/// The error of a wait that timed out. It says who never came and who did.
Error absent_error(std::string_view doing, const std::vector<bool>& came,
                   std::span<const Rank> names = {});

/// Members of a subgroup must be distinct ranks of a group of `size` and contain `self`.
Status check_members(std::span<const Rank> members, Rank self, std::int32_t size);

}  // namespace tutti
