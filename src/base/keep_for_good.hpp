// Keeps resources that can never be freed, because nobody knows when their last use ends.
#pragma once

#include <memory>

namespace tutti {

/// Holds `resource` until the process ends. Thread-safe.
void keep_for_good(std::shared_ptr<const void> resource);

}  // namespace tutti
