// What is to happen when, in virtual time. Events of one time come in the order in which they were
// entered, so a simulation always runs the same way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

#include "src/sim/time.hpp"

namespace tutti::sim {

/// Value. `What` says what happens; keep it small, as it moves through a heap.
template <class What>
class Agenda {
 public:
  void enter(Time time, const What& what) { heap_.push({time, entered_++, what}); }

  [[nodiscard]] bool empty() const { return heap_.empty(); }
  /// The time of the first event; kNever when there is none.
  [[nodiscard]] Time next() const { return heap_.empty() ? kNever : heap_.top().time; }
  /// The first event. There must be one.
  [[nodiscard]] const What& first() const { return heap_.top().what; }
  /// Takes the first event away. There must be one.
  What take() {
    const What what = heap_.top().what;
    heap_.pop();
    return what;
  }

 private:
  struct Entry {
    Time time;
    std::uint64_t order;
    What what;
  };
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const {
      return a.time != b.time ? a.time > b.time : a.order > b.order;
    }
  };
  std::priority_queue<Entry, std::vector<Entry>, Later> heap_;
  std::uint64_t entered_ = 0;
};

}  // namespace tutti::sim
