// Hashes that are the same on every machine and in every version: some are stored or sent. They
// find accidents and spread keys; none of them resists somebody who wants a collision.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tutti {

/// 2^64 / golden ratio, odd: multiples of it are spread evenly.
inline constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;

/// A bijection in which every bit of the result depends on every bit of `x`: the output function of
/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111eb;
  return x ^ (x >> 31U);
}
/// The state of a hash of words after one more word.
constexpr std::uint64_t mix(std::uint64_t state, std::uint64_t word) {
  return mix((state ^ word) + kGolden);
}

/// FNV-1a over 64 bits: the start, and the hash after one more byte, or word of up to 64 bits. It
/// takes one multiplication, but high bits of a word do not reach the low bits of the hash.
inline constexpr std::uint64_t kFnvStart = 0xcbf29ce484222325;
constexpr std::uint64_t fnv_step(std::uint64_t hash, std::uint64_t word) {
  return (hash ^ word) * 0x100000001b3;
}
constexpr std::uint64_t fnv(std::span<const std::byte> bytes) {
  std::uint64_t hash = kFnvStart;
  for (const std::byte byte : bytes) hash = fnv_step(hash, static_cast<std::uint64_t>(byte));
  return hash;
}
inline std::uint64_t fnv(std::string_view text) { return fnv(std::as_bytes(std::span(text))); }

}  // namespace tutti
