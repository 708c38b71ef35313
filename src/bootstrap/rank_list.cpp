#include "src/bootstrap/rank_list.hpp"

#include <algorithm>

#include "src/base/result.hpp"

namespace tutti {

std::string describe_ranks(std::span<const Rank> ascending, std::size_t most) {
  if (ascending.empty()) return "none";
  std::string text;
  std::size_t ranges = 0;
  for (std::size_t i = 0; i < ascending.size();) {
    if (ranges++ == most) return text + fmt::format(" and {} more", ascending.size() - i);
    std::size_t end = i + 1;
    while (end < ascending.size() && ascending[end] == ascending[end - 1] + 1) ++end;
    if (!text.empty()) text += ", ";
    text += fmt::format("{}", ascending[i]);
    if (end - i > 1) text += fmt::format("-{}", ascending[end - 1]);
    i = end;
  }
  return text;
}

namespace {

/// Those r with came[r] == `whether`, by name.
std::vector<Rank> ranks_that(bool whether, const std::vector<bool>& came,
                             std::span<const Rank> names) {
  std::vector<Rank> ranks;
  for (std::size_t r = 0; r < came.size(); ++r)
    if (came[r] == whether) ranks.push_back(r < names.size() ? names[r] : static_cast<Rank>(r));
  std::ranges::sort(ranks);
  return ranks;
}

}  // namespace

std::vector<Rank> absent_ranks(const std::vector<bool>& came, std::span<const Rank> names) {
  return ranks_that(false, came, names);
}

Error absent_error(std::string_view doing, const std::vector<bool>& came,
                   std::span<const Rank> names) {
  const std::vector<Rank> present = ranks_that(true, came, names);
  const std::vector<Rank> absent = ranks_that(false, came, names);
  return peer_error(Code::kTimeout, absent.empty() ? kNoRank : absent.front(),
                    "{} timed out: of {} ranks, these never came: {}; these did: {}", doing,
                    came.size(), describe_ranks(absent), describe_ranks(present));
}

Status check_members(std::span<const Rank> members, Rank self, std::int32_t size) {
  std::vector<Rank> sorted(members.begin(), members.end());
  std::ranges::sort(sorted);
  if (sorted.empty() || sorted.front() < 0 || sorted.back() >= size) {
    return make_error(Code::kInvalidArgument,
                      "a subgroup of a group of {} needs members in 0..{}, not {}", size, size - 1,
                      describe_ranks(sorted));
  }
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end()) {
    return make_error(Code::kInvalidArgument, "rank {} is listed twice in a subgroup", *twice);
  }
  if (!std::ranges::binary_search(sorted, self)) {
    return make_error(Code::kInvalidArgument,
                      "rank {} calls for a subgroup that it is not in (members {})", self,
                      describe_ranks(sorted));
  }
  return ok_status();
}

}  // namespace tutti
