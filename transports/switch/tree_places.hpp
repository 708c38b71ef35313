// From the switches that a job's members reach to the tree that these make: each switch adds for
// its members, and is a leaf of the tree if it is not the only one.
//
// Members tell each other an id of the switch that they reach, for each group. A switch draws its
// id when it starts, so members that reach it by several names agree.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/blob.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::in_network {

/// A switch's Identity::token. 0: none is reached.
using SwitchId = std::uint64_t;

/// Where a member of a group is.
struct TreePlace {
  std::uint32_t leaves = 1;   ///< switches, in the order of their first members
  std::uint32_t leaf = 0;     ///< which of them is the member's
  std::uint32_t workers = 1;  ///< of that switch
  std::uint32_t worker = 0;   ///< which of them is the member, in the order of members

  friend bool operator==(const TreePlace&, const TreePlace&) = default;
};

/// What a rank tells all others: the switch that it reaches, for each group.
Blob encode(std::span<const SwitchId> switches);
/// The switches of a group's members. `told` is what each rank of the job has told about `groups`
/// groups. kUnavailable if a member reaches none, or has told something else.
Result<std::vector<SwitchId>> switches_of(std::span<const Blob> told, std::size_t groups,
                                          std::size_t group, std::span<const Rank> members);

/// Each member's place. `switches`: each member's. kUnsupported if a switch has too many members,
/// or the tree too many leaves.
Result<std::vector<TreePlace>> places_in_tree(std::span<const SwitchId> switches);

}  // namespace tutti::in_network
