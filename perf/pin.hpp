// Two sides that spin on one processor would measure the scheduler.
#pragma once

#include <algorithm>
#include <thread>

#include <sched.h>

namespace tutti {

/// Restricts the calling thread to one processor, counted round the machine's.
inline void pin_to(unsigned processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor % std::max(1U, std::thread::hardware_concurrency()), &set);
  (void)::sched_setaffinity(0, sizeof set, &set);
}

}  // namespace tutti
