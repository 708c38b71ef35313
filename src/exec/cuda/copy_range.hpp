// Bytes to copy: between a caller's buffer and the memory that stands in for it, or within a GPU.
#pragma once

#include <cstddef>

namespace tutti::exec::cuda {

/// Value.
struct CopyRange {
  std::byte* buffer = nullptr;  ///< the caller's
  std::size_t slot_offset = 0;  ///< in the slot, or in the bounce buffer
  std::size_t bytes = 0;
  friend bool operator==(const CopyRange&, const CopyRange&) = default;
};

/// Between two places of a GPU's memory. Value.
struct DeviceCopy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
  friend bool operator==(const DeviceCopy&, const DeviceCopy&) = default;
};

}  // namespace tutti::exec::cuda
