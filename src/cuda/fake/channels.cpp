// Channels, and what is waited for.
#include <utility>

#include "src/cuda/fake/fake.hpp"

namespace fake_cuda {
namespace {

/// For completions, which are few: one lock and one bell for all.
struct Bell {
  std::mutex mutex;
  std::condition_variable rung;
};
Bell& bell() {
  static auto* const instance = new Bell;
  return *instance;
}

}  // namespace

void reach(const Done& done) {
  {
    const std::scoped_lock lock(bell().mutex);
    done->reached = true;
  }
  bell().rung.notify_all();
}

void await(const Done& done) {
  std::unique_lock lock(bell().mutex);
  bell().rung.wait(lock, [&] { return done->reached.load(); });
}

void Channel::submit(Work work) {
  const std::scoped_lock lock(mutex_);
  last_ = work.done;
  works_.push_back(std::move(work));
  filled_.notify_one();
  if (std::exchange(running_, true)) return;
  std::thread([this] { serve(); }).detach();
}

Done Channel::last() {
  const std::scoped_lock lock(mutex_);
  return last_;
}

void Channel::serve() {
  for (;;) {
    Work work;
    {
      std::unique_lock lock(mutex_);
      filled_.wait(lock, [&] { return !works_.empty(); });
      work = std::move(works_.front());
      works_.pop_front();
    }
    for (const Done& before : work.after) await(before);
    if (work.context->broken == Return::kSuccess)
      if (const Return failed = work.run(); failed != Return::kSuccess)
        work.context->broken = failed;
    work.run = nullptr;  // what it holds ends before it counts as done
    reach(work.done);
  }
}

}  // namespace fake_cuda
