// What each side sends, with its heap's descriptor, once both have proved the key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/base/blob.hpp"
#include "tutti/error.hpp"

namespace tutti {

inline constexpr std::size_t kIntroductionBytes = 1 + 3 * 8;
inline constexpr std::uint64_t kLargestRing = 1 << 28;

/// Value. The ring that the receiver shall read, and the heap that contains it.
struct Introduction {
  std::uint64_t heap_bytes = 0;
  std::uint64_t ring_offset = 0;
  std::uint64_t ring_bytes = 0;  ///< a power of two; excludes the header
  friend bool operator==(const Introduction&, const Introduction&) = default;
};

/// kIntroductionBytes.
Blob encode(const Introduction& said);
/// Accepts hostile bytes: checks that the ring with its header is aligned and lies inside the heap.
Result<Introduction> decode_introduction(std::span<const std::byte> bytes);

}  // namespace tutti
