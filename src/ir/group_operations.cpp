#include "src/ir/group_operations.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "src/base/result.hpp"
#include "src/ir/cells.hpp"
#include "src/ir/verify.hpp"

namespace tutti::ir {
namespace {

/// Puts the parts of one operation together.
class Assembly {
 public:
  Assembly(const Schedule& schedule, const Group& group, GroupOperation& operation)
      : schedule_(schedule), group_(group), operation_(operation) {}

  Status run() {
    const Verb verb = step(0).verb;
    for (std::size_t place = 1; place < group_.ranks.size(); ++place)
      if (step(place).verb != verb)
        return fail(place, "a {} was expected, as in {}", name_of(verb), text(0));
    TUTTI_TRY(check_formats());
    TUTTI_TRY(verb == Verb::kGroupReduce ? reduction() : multicast());
    return check_lengths();
  }

 private:
  const Step& step(std::size_t place) const {
    return schedule_.programs[static_cast<std::size_t>(group_.ranks[place])]
        .steps[operation_.parts[place].step];
  }
  std::string text(std::size_t place) const {
    return describe(schedule_, group_.ranks[place], operation_.parts[place].step);
  }
  template <class... Args>
  Error fail(std::size_t place, fmt::format_string<Args...> format, Args&&... args) const {
    return make_error(Code::kInvalidArgument, "{}: {}", text(place),
                      fmt::format(format, std::forward<Args>(args)...));
  }

  /// The network converts nothing.
  Status check_formats() const {
    std::optional<FormatId> format;
    for (std::size_t place = 0; place < group_.ranks.size(); ++place)
      for (const ChunkSet* set : {&step(place).src, &step(place).dst}) {
        if (set->count == 0) continue;
        if (format.value_or(set->format) != set->format)
          return fail(place, "the network converts nothing; one format was expected, as in {}",
                      text(0));
        format = set->format;
      }
    return ok_status();
  }

  Status reduction() {
    const std::uint32_t chunks = step(0).src.count;
    operation_.chunks = chunks;
    for (std::size_t place = 1; place < group_.ranks.size(); ++place)
      if (step(place).src.count != chunks)
        return fail(place, "{} chunks were expected as source, as in {}", chunks, text(0));
    return results();
  }

  /// All get all, one gets all, or each gets its part.
  Status results() {
    const auto members = static_cast<std::uint32_t>(group_.ranks.size());
    const std::uint32_t chunks = operation_.chunks;
    std::uint32_t all = 0, none = 0, parts = 0;
    for (std::size_t place = 0; place < members; ++place) {
      const std::uint32_t count = step(place).dst.count;
      operation_.parts[place].first = 0;
      if (count != 0) operation_.root = static_cast<std::uint32_t>(place);
      all += count == chunks ? 1 : 0;
      none += count == 0 ? 1 : 0;
      parts += std::uint64_t{count} * members == chunks ? 1 : 0;
    }
    if (parts == members) {
      operation_.form = GroupForm::kSumInParts;
      operation_.root = 0;
      for (std::uint32_t place = 0; place < members; ++place)
        operation_.parts[place].first = place * (chunks / members);
      return ok_status();
    }
    if (all == 1 && none == members - 1) {
      operation_.form = GroupForm::kSumToOne;
      return ok_status();
    }
    operation_.form = GroupForm::kSumToAll;
    operation_.root = 0;
    if (all == members) return ok_status();
    return fail(0,
                "of the {} members, {} get all {} sums and {} get none; all, one or equal parts "
                "were expected",
                members, all, chunks, none);
  }

  Status multicast() {
    std::uint32_t senders = 0;
    std::size_t sender = 0;
    for (std::size_t place = 0; place < group_.ranks.size(); ++place) {
      const std::uint32_t count = step(place).src.count;
      if (count == 0) continue;
      if (senders == 0) sender = place;
      if (count != step(sender).src.count)
        return fail(place, "{} chunks were expected as source, as in {}", step(sender).src.count,
                    text(sender));
      operation_.parts[place].first_sent = senders * count;
      ++senders;
    }
    if (senders != 1 && senders != group_.ranks.size())
      return fail(sender, "{} of {} members send; one or all were expected", senders,
                  group_.ranks.size());
    const std::uint64_t chunks = std::uint64_t{senders} * step(sender).src.count;
    bool received = false;
    for (std::size_t place = 0; place < group_.ranks.size(); ++place) {
      const std::uint32_t count = step(place).dst.count;
      received = received || (count != 0 && senders == 1 && place != sender) ||
                 (count != 0 && senders > 1);
      if (count != 0 && count != chunks)
        return fail(place, "{} chunks are sent; as many were expected as destination, or none",
                    chunks);
    }
    if (!received) return fail(sender, "another member was expected to receive it");
    operation_.chunks = static_cast<std::uint32_t>(chunks);
    operation_.form = senders == 1 ? GroupForm::kFromOne : GroupForm::kFromAll;
    operation_.root = senders == 1 ? static_cast<std::uint32_t>(sender) : 0;
    return ok_status();
  }

  /// Chunks at one position are equally long on all members. The first source decides.
  Status check_lengths() const {
    std::vector<std::uint32_t> expected;
    for (std::size_t place = 0; place < group_.ranks.size(); ++place) {
      const ChunkSet& src = step(place).src;
      for (std::uint32_t i = 0; i < src.count; ++i) {
        if (expected.size() == operation_.chunks) break;
        expected.push_back(length(place, src, i));
      }
    }
    for (std::size_t place = 0; place < group_.ranks.size(); ++place) {
      const GroupPart& part = operation_.parts[place];
      TUTTI_TRY(
          check_lengths(place, step(place).src, std::span(expected).subspan(part.first_sent)));
      TUTTI_TRY(check_lengths(place, step(place).dst, std::span(expected).subspan(part.first)));
    }
    return ok_status();
  }
  Status check_lengths(std::size_t place, const ChunkSet& set,
                       std::span<const std::uint32_t> expected) const {
    for (std::uint32_t i = 0; i < set.count; ++i)
      if (length(place, set, i) != expected[i])
        return fail(place,
                    "chunk {} has the size of chunk {} of a block, where that of chunk {} was "
                    "expected",
                    set.at(i), length(place, set, i), expected[i]);
    return ok_status();
  }
  std::uint32_t length(std::size_t place, const ChunkSet& set, std::uint32_t i) const {
    return index_in_block(schedule_, group_.ranks[place], set.space, set.at(i));
  }

  const Schedule& schedule_;
  const Group& group_;
  GroupOperation& operation_;
};

/// steps[group][place]: the group steps of each member, in program order.
using MemberSteps = std::vector<std::vector<std::vector<StepId>>>;

MemberSteps member_steps(const Schedule& schedule, const Membership& membership) {
  MemberSteps steps;
  for (const Group& group : schedule.groups) steps.emplace_back(group.ranks.size());
  for (Rank rank = 0; rank < schedule.request.ranks; ++rank) {
    const auto& own = schedule.programs[static_cast<std::size_t>(rank)].steps;
    for (StepId id = 0; id < own.size(); ++id)
      if (uses_group(own[id].verb))
        steps[own[id].group][*membership.place(own[id].group, rank)].push_back(id);
  }
  return steps;
}

/// A member has fewer group steps than another.
Error missing(const Schedule& schedule, const Group& group,
              const std::vector<std::vector<StepId>>& steps) {
  const auto fewer = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  const auto least = std::ranges::min_element(steps, fewer);
  const auto most = std::ranges::max_element(steps, fewer);
  const std::size_t done = least->size();
  return make_error(Code::kInvalidArgument,
                    "{}: this is operation {} of its group, but rank {} takes part in only {}",
                    describe(schedule, group.ranks[static_cast<std::size_t>(most - steps.begin())],
                             (*most)[done]),
                    done + 1, group.ranks[static_cast<std::size_t>(least - steps.begin())], done);
}

}  // namespace

Membership::Membership(const Schedule& schedule) {
  for (const Group& group : schedule.groups) {
    std::vector<Member>& members = members_.emplace_back();
    for (std::size_t place = 0; place < group.ranks.size(); ++place)
      members.push_back({group.ranks[place], place});
    std::ranges::sort(members, {}, &Member::rank);
  }
}

std::optional<std::size_t> Membership::place(GroupId group, Rank rank) const {
  const auto found = std::ranges::lower_bound(members_[group], rank, {}, &Member::rank);
  if (found == members_[group].end() || found->rank != rank) return std::nullopt;
  return found->place;
}

Result<GroupOperations> group_operations(const Schedule& schedule, const Membership& membership) {
  GroupOperations all;
  const MemberSteps steps = member_steps(schedule, membership);
  for (std::size_t id = 0; id < schedule.groups.size(); ++id) {
    const Group& group = schedule.groups[id];
    auto& operations = all.emplace_back();
    for (const auto& own : steps[id])
      if (own.size() != steps[id].front().size()) return missing(schedule, group, steps[id]);
    for (std::size_t k = 0; k < steps[id].front().size(); ++k) {
      GroupOperation& operation = operations.emplace_back();
      for (const auto& own : steps[id]) operation.parts.push_back({own[k], 0, 0});
      TUTTI_TRY(Assembly(schedule, group, operation).run());
    }
  }
  return all;
}

}  // namespace tutti::ir
