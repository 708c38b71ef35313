// Which steps may run: those whose dependencies are complete.
//
// Words used throughout src/sim:
//   slice   the same part of every chunk. A call with several slices runs all its steps once per
//           slice, as executors do, so a rank works on one slice while the next is under way.
//   task    one step of one rank on one slice.
#pragma once

#include <cstdint>
#include <vector>

#include "src/ir/schedule.hpp"
#include "tutti/error.hpp"

namespace tutti::sim {

struct Task {
  Rank rank = kNoRank;
  ir::StepId step = 0;
  std::uint32_t slice = 0;
  friend bool operator==(const Task&, const Task&) = default;
};

class TaskGraph {
 public:
  /// Most tasks of a simulation. Each takes about 20 bytes.
  static constexpr std::uint64_t kMostTasks = std::uint64_t{1} << 31U;

  /// kUnavailable with more than kMostTasks tasks. The schedule must be well-formed.
  static Result<TaskGraph> create(const ir::Schedule& schedule, std::uint64_t slices);

  [[nodiscard]] std::uint64_t tasks() const { return waits_for_.size(); }
  [[nodiscard]] std::uint32_t slices() const { return slices_; }
  [[nodiscard]] Rank ranks() const { return static_cast<Rank>(first_step_.size()) - 1; }
  [[nodiscard]] std::uint32_t steps(Rank rank) const {
    return first_step_[static_cast<std::size_t>(rank) + 1] -
           first_step_[static_cast<std::size_t>(rank)];
  }
  /// A number for the step, unique over all ranks and less than the number of all steps.
  [[nodiscard]] std::uint32_t number(Rank rank, ir::StepId step) const {
    return first_step_[static_cast<std::size_t>(rank)] + step;
  }
  /// A number for the task, less than tasks().
  [[nodiscard]] std::uint32_t number(const Task& task) const {
    return first_step_[static_cast<std::size_t>(task.rank)] * slices_ +
           task.slice * steps(task.rank) + task.step;
  }

  /// The task is complete. Calls `ready(Task)` for each task that was only waiting for this one.
  template <class Ready>
  void complete(const Task& task, Ready&& ready) {
    const std::uint32_t step = number(task.rank, task.step);
    const std::uint32_t first = number({task.rank, 0, task.slice});
    for (std::uint32_t i = first_dependent_[step]; i < first_dependent_[step + 1]; ++i)
      if (--waits_for_[first + dependents_[i]] == 0)
        ready(Task{task.rank, dependents_[i], task.slice});
  }

  /// Number of dependencies of the task that are not complete.
  [[nodiscard]] std::uint32_t waits_for(const Task& task) const { return waits_for_[number(task)]; }

 private:
  TaskGraph(const ir::Schedule& schedule, std::uint32_t slices);

  std::uint32_t slices_;
  std::vector<std::uint32_t> first_step_;       // of each rank; one more at the end
  std::vector<std::uint32_t> first_dependent_;  // of each step, in dependents_; one more at the end
  std::vector<ir::StepId> dependents_;
  std::vector<std::uint32_t> waits_for_;  // of each task
};

}  // namespace tutti::sim
