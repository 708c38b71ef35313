// For what cannot be given back, because nobody can tell when the last use of it is over.
#pragma once

#include <memory>

namespace tutti {

/// Holds `resource` until the process ends. Thread-safe.
void keep_for_good(std::shared_ptr<const void> resource);

}  // namespace tutti
