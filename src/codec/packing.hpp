// What the encodings of a block share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/device_macros.hpp"
#include "src/codec/elements.hpp"

namespace tutti::codec {

/// Of lambdas: as one of a loop, they must be compiled for the instruction set of the loop.
#define TUTTI_INLINED __attribute__((always_inline))

/// The largest magnitude, as bits: kInfinityBits or more if there is an infinity or a NaN.
[[gnu::always_inline]] TUTTI_DEVICE inline std::uint32_t largest_magnitude(const float* in,
                                                                           std::size_t count) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t magnitude = magnitude_of(in[i]);
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

/// Two codes of four bits in a byte: those of values i and i + (count + 1) / 2, so that a processor
/// reads and writes vectors of neighbours. `code_of(i)` has no bits beyond four.
template <class CodeOf>
[[gnu::always_inline]] TUTTI_DEVICE inline void pack_in_fours(std::size_t count, std::byte* out,
                                                              const CodeOf& code_of) {
  const std::size_t half = (count + 1) / 2, pairs = count / 2;
  for (std::size_t i = 0; i < pairs; ++i)
    out[i] = static_cast<std::byte>(code_of(i) | code_of(i + half) << 4);
  if (pairs < half) out[pairs] = static_cast<std::byte>(code_of(pairs));
}
template <class ValueOf>
[[gnu::always_inline]] TUTTI_DEVICE inline void unpack_fours(const std::byte* in, std::size_t count,
                                                             float* out, const ValueOf& value_of) {
  const std::size_t half = (count + 1) / 2, pairs = count / 2;
  for (std::size_t i = 0; i < pairs; ++i) {
    const auto both = static_cast<std::uint32_t>(in[i]);
    out[i] = value_of(both & 15);
    out[i + half] = value_of(both >> 4);
  }
  if (pairs < half) out[pairs] = value_of(static_cast<std::uint32_t>(in[pairs]) & 15);
}

}  // namespace tutti::codec
