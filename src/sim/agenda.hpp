// Events in virtual time. Events at the same time come in insertion order, so a simulation always
// runs the same way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

#include "src/sim/time.hpp"

namespace tutti::sim {

/// Value. `What` describes the event. Keep it small, because it moves through a heap.
template <class What>
class Agenda {
 public:
  void enter(Time time, const What& what) { heap_.push({time, entered_++, what}); }

  [[nodiscard]] bool empty() const { return heap_.empty(); }
  /// Time of the first event; kNever if there is none.
  [[nodiscard]] Time next() const { return heap_.empty() ? kNever : heap_.top().time; }
  /// The first event. There must be one.
  [[nodiscard]] const What& first() const { return heap_.top().what; }
  /// Removes and returns the first event. There must be one.
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
