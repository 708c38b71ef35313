#include "src/exec/cuda/enqueue_barrier.hpp"

#include <algorithm>

namespace tutti::exec::cuda {

void EnqueueBarrier::arrive(std::span<const Mark> marks) {
  {
    const std::scoped_lock lock(mutex_);
    for (const Mark& mark : marks) counts_[mark.of] = mark.count;
  }
  changed_.notify_all();
}

bool EnqueueBarrier::await(std::span<const Mark> marks, Deadline deadline) {
  std::unique_lock lock(mutex_);
  const auto all_arrived = [&] {
    return std::ranges::all_of(marks,
                               [&](const Mark& mark) { return counts_[mark.of] >= mark.count; });
  };
  while (!all_arrived() && !deadline.passed()) changed_.wait_for(lock, deadline.nap());
  return all_arrived();
}

}  // namespace tutti::exec::cuda
