// A group whose ranks are threads of this process: shared state, no sockets.
#pragma once

#include <memory>
#include <vector>

#include "src/bootstrap/bootstrap.hpp"

namespace tutti {

/// One Bootstrap a rank, each to be used by one thread at a time. `n` must be at least 1. They
/// share a fresh key. Failures come from announce() alone (a thread does not die by itself); a rank
/// whose Bootstrap was destroyed has left, and later calls that need it fail at once, naming it.
/// Failure handlers run in the announcing thread, one at a time.
std::vector<std::unique_ptr<Bootstrap>> in_process_group(int n);

}  // namespace tutti
