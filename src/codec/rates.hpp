// How fast this machine encodes and decodes.
#pragma once

#include "src/codec/format.hpp"

namespace tutti::codec {

/// Of one CPU. Value.
struct Rates {
  double encode_ps = 0, decode_ps = 0;  ///< picoseconds per float32
};
/// The first call for a format encodes and decodes 64 Ki values a few times, and so takes some
/// milliseconds; later ones remember it. Any thread may ask.
Rates rates_of(const Format& format, bool rounds_at_random);

}  // namespace tutti::codec
