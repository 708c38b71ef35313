// The executor's order of steps (SimulateOptions::rounds): what each rank does next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/ir/schedule.hpp"
#include "src/sim/task_graph.hpp"

namespace tutti::sim {

/// The tasks of each rank in the order of their iterations. Without rounds there is none.
class Itineraries {
 public:
  /// `rounds` by rank and step, as in SimulateOptions. A receive is posted, and a group step begun,
  /// in the round before that of what it gets.
  Itineraries(const ir::Schedule& schedule, std::uint32_t slices,
              const std::vector<std::vector<std::uint32_t>>& rounds);

  /// Whether ranks have an order.
  [[nodiscard]] bool exist() const { return !of_ranks_.empty(); }

  /// The first task that the rank has not begun; null at the end.
  [[nodiscard]] const Task* next(Rank rank) const {
    const Itinerary& own = of_ranks_[static_cast<std::size_t>(rank)];
    return own.next < own.tasks.size() ? &own.tasks[own.next] : nullptr;
  }
  void advance(Rank rank) { ++of_ranks_[static_cast<std::size_t>(rank)].next; }

 private:
  struct Itinerary {
    std::vector<Task> tasks;
    std::size_t next = 0;
  };
  std::vector<Itinerary> of_ranks_;
};

}  // namespace tutti::sim
