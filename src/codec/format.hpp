// A format: how values are kept where bytes are scarce, on a wire or in a slot.
//
// All formats hold float32. A block of values shares what the format keeps beside the values, such
// as a scale. So a span of values that begins at a multiple of traits().block is encoded by itself:
// its bytes do not depend on what lies around it, and a slice of a message can be decoded alone.
//
// The same values give the same bytes on every processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/codec/rounding.hpp"

namespace tutti::codec {

struct FormatTraits {
  std::string name;         ///< with its settings, as make_format() takes it
  std::uint32_t block = 1;  ///< a power of two
  double bits = 32;         ///< of a value, in a full block
  double value_bits = 32;   ///< of these, what is the value's own; the rest is what values share
  /// A decoded value is off by at most `error` times the largest magnitude of its block, plus
  /// `least`. That holds for blocks of magnitudes up to `largest`, rounded to nearest. Random
  /// rounding doubles it.
  double error = 0;
  double least = 0;
  double largest = 3.4028234663852886e38;
  /// Not 0: a network that adds can take the values as integers of so many bits, whose scale the
  /// ranks choose together (src/switch/exponents.hpp).
  unsigned network_bits = 0;
  std::string_view specials;  ///< what NaN, infinity, zeros and denormal values become
};

/// Has no state. Thread-safe.
class Format {
 public:
  virtual ~Format() = default;
  [[nodiscard]] virtual const FormatTraits& traits() const = 0;
  /// Of `count` encoded values: exact, whatever the values.
  [[nodiscard]] virtual std::size_t bytes(std::size_t count) const = 0;
  /// Writes bytes(count) bytes. No pointer has to be aligned beyond its type.
  virtual void encode(const float* in, std::size_t count, const Rounding& rounding,
                      std::byte* out) const = 0;
  /// Reads bytes(count) bytes, which may be any bytes. False: no encode() writes these, and `out`
  /// holds anything.
  [[nodiscard]] virtual bool decode(const std::byte* in, std::size_t count, float* out) const = 0;
};

}  // namespace tutti::codec
