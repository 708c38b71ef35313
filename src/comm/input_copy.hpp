// A copy of a call's input, for ranks in place that run an out-of-place program.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "src/base/result.hpp"
#include "src/comm/call.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Its memory is reused from call to call. Resource.
class InputCopy {
 public:
  /// Of `rank`, of `size`; gaps between blocks are left out. Valid until the next one.
  /// kUnavailable: no memory.
  Result<const std::byte*> of(const Call& call, Rank rank, std::int32_t size) {
    const std::vector<Stretch> stretches = input_stretches(call, rank, size);
    std::size_t bytes = 0;
    for (const Stretch& stretch : stretches) bytes = std::max(bytes, stretch.begin + stretch.bytes);
    TUTTI_TRY(grow(bytes));
    const auto* const input = static_cast<const std::byte*>(call.send);
    for (const auto& [begin, length] : stretches)
      std::memcpy(data_.get() + begin, input + begin, length);
    return static_cast<const std::byte*>(data_.get());
  }

 private:
  Status grow(std::size_t bytes) {
    if (bytes <= bytes_) return ok_status();
    bytes_ = 0;
    data_.reset(new (std::nothrow) std::byte[bytes]);
    if (!data_)
      return make_error(Code::kUnavailable,
                        "no memory for a copy of {} bytes of input, which this algorithm needs in "
                        "place: call with separate buffers",
                        bytes);
    bytes_ = bytes;
    return ok_status();
  }

  std::unique_ptr<std::byte[]> data_;
  std::size_t bytes_ = 0;
};

}  // namespace tutti
