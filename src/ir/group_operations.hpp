// Which steps of which ranks make up each operation of a group, and who gets what of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "src/ir/schedule.hpp"
#include "tutti/error.hpp"

namespace tutti::ir {

/// One rank's part in an operation, at its place in the group.
struct GroupPart {
  StepId step = 0;
  /// The destination holds what is at these positions of the operation: its k-th chunk what is at
  /// `first + k`. Positions count the sums, or what all senders send in the order of members.
  std::uint32_t first = 0;
  /// The same of the source. In a reduction, positions of all sources begin at 0.
  std::uint32_t first_sent = 0;
};

/// What an operation does, as its steps' operands tell.
enum class GroupForm : std::uint8_t {
  kSumToAll,
  kSumToOne,
  kSumInParts,  ///< each member gets its part
  kFromOne,     ///< a multicast of one member's data
  kFromAll,
};
inline constexpr int kGroupForms = 5;
constexpr bool adds(GroupForm form) { return form <= GroupForm::kSumInParts; }
/// Whether one member is named: the one that gets the sums, or the one that sends.
constexpr bool has_root(GroupForm form) {
  return form == GroupForm::kSumToOne || form == GroupForm::kFromOne;
}
constexpr std::string_view name_of(GroupForm form) {
  constexpr std::string_view kNames[] = {"sum to all", "sum to one", "sum in parts", "from one",
                                         "from all"};
  return kNames[static_cast<std::size_t>(form)];
}

struct GroupOperation {
  GroupForm form = GroupForm::kSumToAll;
  std::uint32_t root = 0;        ///< place of the one member, if has_root(form)
  std::uint32_t chunks = 0;      ///< positions
  std::vector<GroupPart> parts;  ///< by place in the group
};

/// operations[group][k]
using GroupOperations = std::vector<std::vector<GroupOperation>>;

/// The places of ranks in the groups of a schedule. Value.
class Membership {
 public:
  explicit Membership(const Schedule& schedule);
  /// Nothing if `rank` is no member. `group` must exist.
  [[nodiscard]] std::optional<std::size_t> place(GroupId group, Rank rank) const;

 private:
  struct Member {
    Rank rank = kNoRank;
    std::size_t place = 0;
  };
  std::vector<std::vector<Member>> members_;  // of each group, by rank
};

/// Fails if members take part in different numbers of operations of a group, or if the parts of an
/// operation do not fit together: other verbs, other chunks, or results for some members alone. The
/// schedule must be well-formed, and `membership` its own.
Result<GroupOperations> group_operations(const Schedule& schedule, const Membership& membership);

}  // namespace tutti::ir
