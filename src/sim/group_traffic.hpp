// The operations of groups: which steps take part in each, over which links their data flows, and
// in what order each group does them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/ir/group_operations.hpp"
#include "src/ir/schedule.hpp"
#include "src/sim/fabric.hpp"
#include "src/sim/task_graph.hpp"
#include "src/sim/time.hpp"
#include "tutti/error.hpp"

namespace tutti::sim {

/// One operation of a group on one slice: the index of the operation times the number of slices,
/// plus the slice.
using RunId = std::uint32_t;

/// Data that flows through a tree at one rate, on all links of its path at the same time: switches
/// pass it on as it comes, whatever the number of levels.
struct Stream {
  std::uint32_t path = 0;  ///< of GroupTraffic::path()
  Rank rank = kNoRank;     ///< whose chunks these are
  ir::ChunkSet chunks = {};
  double on_links = 1;  ///< bytes on each link for each byte of the chunks
};

/// A member's step in an operation.
struct Part {
  Rank rank = kNoRank;
  ir::StepId step = 0;
};

struct Operation {
  ir::GroupId group = 0;
  std::vector<Part> parts;      ///< by place in the group
  std::vector<Stream> streams;  ///< all begin when the operation does
  Time latency = 0;             ///< from the end of its last stream to its own
};

/// A group of a schedule on its tree.
struct GroupOnTree {
  std::string name;               ///< of the tree
  std::uint32_t outstanding = 1;  ///< operations at a time; 0: any number
  double rate = 0;                ///< GB/s of its sums; 0: what the links have
  std::vector<RunId> order;       ///< in which operations begin: by turn, then as in the programs
};

/// Immutable.
class GroupTraffic {
 public:
  using Rounds = std::vector<std::vector<std::uint32_t>>;

  /// What a plan consists of.
  struct Plan {
    std::uint32_t slices = 1;
    LinkId first_limit = 0;
    std::vector<GroupOnTree> groups;
    std::vector<Operation> operations;
    std::vector<std::uint32_t> operation_of;  ///< by number of step; only of group steps
    std::vector<std::vector<LinkId>> paths;
  };
  explicit GroupTraffic(Plan plan) : plan_(std::move(plan)) {}

  /// `rounds` as in Traffic::plan. kInvalidArgument for steps that do not fit together, and what
  /// Fabric::trees says.
  static Result<GroupTraffic> plan(const ir::Schedule& schedule, Fabric& fabric,
                                   const TaskGraph& graph, const Rounds& rounds = {});

  [[nodiscard]] std::span<const GroupOnTree> groups() const { return plan_.groups; }
  /// The rate of a group is that of a link of its own, on the paths of its sums. Links of groups
  /// follow those of the fabric.
  [[nodiscard]] LinkId limit_of(ir::GroupId group) const { return plan_.first_limit + group; }

  [[nodiscard]] std::size_t runs() const { return plan_.operations.size() * plan_.slices; }
  [[nodiscard]] const Operation& operation(RunId run) const {
    return plan_.operations[run / plan_.slices];
  }
  [[nodiscard]] std::uint32_t slice(RunId run) const { return run % plan_.slices; }
  [[nodiscard]] std::span<const LinkId> path(const Stream& stream) const {
    return plan_.paths[stream.path];
  }
  /// The run of a group step. `step_number` is TaskGraph's.
  [[nodiscard]] RunId run_of(std::uint32_t step_number, std::uint32_t slice) const {
    return plan_.operation_of[step_number] * plan_.slices + slice;
  }

 private:
  Plan plan_;
};

}  // namespace tutti::sim
