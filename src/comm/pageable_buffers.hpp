// Ordinary memory of the host among the buffers of calls on GPUs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "src/comm/call.hpp"
#include "src/exec/cuda/copy_range.hpp"

namespace tutti {

/// Buffers of ordinary host memory, which the host copies itself.
class PageableBuffers {
 public:
  void add(const void* buffer, std::span<const Stretch> stretches) {
    const auto* const begin = static_cast<const std::byte*>(buffer);
    for (const auto& [offset, bytes] : stretches)
      ranges_.push_back({begin + offset, begin + offset + bytes});
  }
  [[nodiscard]] bool holds(const exec::cuda::CopyRange& copy) const {
    return std::ranges::any_of(ranges_, [&](const Range& range) {
      return range.begin <= copy.buffer && copy.buffer < range.end;
    });
  }
  [[nodiscard]] bool empty() const { return ranges_.empty(); }

 private:
  struct Range {
    const std::byte *begin, *end;
  };
  std::vector<Range> ranges_;
};

}  // namespace tutti
