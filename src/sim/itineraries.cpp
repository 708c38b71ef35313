#include "src/sim/itineraries.hpp"

#include <algorithm>
#include <utility>

namespace tutti::sim {
namespace {

/// In which round each step begins, given that in which it is complete.
std::vector<std::uint32_t> begins(const ir::Program& program, std::vector<std::uint32_t> rounds) {
  for (ir::StepId id = 0; id < program.steps.size(); ++id) {
    const ir::Step& step = program.steps[id];
    if (step.verb != ir::Verb::kRecv && !ir::uses_group(step.verb)) continue;
    std::uint32_t begun = std::max(rounds[id], 1U) - 1;
    for (const ir::StepId dep : step.deps) begun = std::max(begun, rounds[dep]);
    rounds[id] = begun;
  }
  return rounds;
}

}  // namespace

Itineraries::Itineraries(const ir::Schedule& schedule, std::uint32_t slices,
                         const std::vector<std::vector<std::uint32_t>>& rounds) {
  for (std::size_t rank = 0; rank < rounds.size(); ++rank) {
    const ir::Program& program = schedule.programs[rank];
    const std::vector<std::uint32_t> begun = begins(program, rounds[rank]);
    std::vector<Task>& tasks = of_ranks_.emplace_back().tasks;
    for (std::uint32_t slice = 0; slice < slices; ++slice)
      for (ir::StepId id = 0; id < program.steps.size(); ++id)
        tasks.push_back({static_cast<Rank>(rank), id, slice});
    std::ranges::sort(tasks, {}, [&](const Task& task) {
      return std::pair(begun[task.step] + task.slice, task.step);
    });
  }
}

}  // namespace tutti::sim
