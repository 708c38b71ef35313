// Bytes on their way between a caller's buffer and host memory.
#pragma once

#include <cstddef>

namespace tutti::exec::cuda {

/// Value.
struct Passage {
  std::byte* buffer = nullptr;  ///< the caller's
  std::size_t slot_offset = 0;  ///< in the slot that they pass through
  std::size_t bytes = 0;
  friend bool operator==(const Passage&, const Passage&) = default;
};

}  // namespace tutti::exec::cuda
