#include "src/sim/task_graph.hpp"

#include "src/base/result.hpp"

namespace tutti::sim {

Result<TaskGraph> TaskGraph::create(const ir::Schedule& schedule, std::uint64_t slices) {
  std::uint64_t steps = 0;
  std::uint64_t dependencies = 0;
  for (const ir::Program& program : schedule.programs) {
    steps += program.steps.size();
    for (const ir::Step& step : program.steps) dependencies += step.deps.size();
  }
  if (dependencies > kMostTasks || slices > kMostTasks || steps > kMostTasks / slices)
    return make_error(Code::kUnavailable,
                      "{}: {} steps with {} dependencies in {} slices are more than the {} that "
                      "can be simulated; use fewer ranks or larger slices",
                      schedule.algorithm, steps, dependencies, slices, kMostTasks);
  return TaskGraph(schedule, static_cast<std::uint32_t>(slices));
}

TaskGraph::TaskGraph(const ir::Schedule& schedule, std::uint32_t slices) : slices_(slices) {
  first_step_.push_back(0);
  for (const ir::Program& program : schedule.programs)
    first_step_.push_back(first_step_.back() + static_cast<std::uint32_t>(program.steps.size()));
  waits_for_.resize(std::size_t{first_step_.back()} * slices);

  first_dependent_.assign(std::size_t{first_step_.back()} + 1, 0);
  for (Rank rank = 0; rank < ranks(); ++rank)
    for (const ir::Step& step : schedule.programs[static_cast<std::size_t>(rank)].steps)
      for (const ir::StepId dep : step.deps) ++first_dependent_[number(rank, dep) + 1];
  for (std::size_t step = 1; step < first_dependent_.size(); ++step)
    first_dependent_[step] += first_dependent_[step - 1];

  dependents_.resize(first_dependent_.back());
  std::vector<std::uint32_t> next(first_dependent_.begin(), first_dependent_.end() - 1);
  for (Rank rank = 0; rank < ranks(); ++rank) {
    const auto& list = schedule.programs[static_cast<std::size_t>(rank)].steps;
    for (ir::StepId step = 0; step < list.size(); ++step) {
      for (const ir::StepId dep : list[step].deps) dependents_[next[number(rank, dep)]++] = step;
      for (std::uint32_t slice = 0; slice < slices; ++slice)
        waits_for_[number({rank, step, slice})] =
            static_cast<std::uint32_t>(list[step].deps.size());
    }
  }
}

}  // namespace tutti::sim
