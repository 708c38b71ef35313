#pragma once

#include <cstdint>

namespace tutti::codec {

/// How values are rounded. Random rounding goes up with the probability that keeps the mean (QSGD:
/// Alistarh et al., NIPS 2017, section 3.1). It depends on (key, element) only, so a call can be
/// repeated. Value.
struct Rounding {
  bool random = false;
  std::uint64_t key = 0;    ///< of the call and of the rank
  std::uint64_t first = 0;  ///< number of the span's first element within the call
};

}  // namespace tutti::codec
