// Mixing words into a hash that is the same on every machine.
#pragma once

#include <cstdint>

namespace tutti::topo {

/// The state after one more word. Every bit of the result depends on every bit of the word, by the
/// output function of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
/// generators, OOPSLA 2014).
constexpr std::uint64_t mix(std::uint64_t state, std::uint64_t word) {
  std::uint64_t z = (state ^ word) + 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

}  // namespace tutti::topo
