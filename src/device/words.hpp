// Passes over small data that arrives partly in packets, one 8-byte word at a time.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "src/base/device_macros.hpp"
#include "src/device/arithmetic.hpp"
#include "src/device/combine.hpp"
#include "src/device/packets.hpp"

namespace tutti::device {

TUTTI_DEVICE inline bool is_whole_word(const std::byte* at, std::uint64_t bytes) {
  return bytes >= kPacketData && reinterpret_cast<std::uintptr_t>(at) % kPacketData == 0;
}

/// Words of elements of Unit's size.
template <class Unit>
struct Words {
  static constexpr std::uint32_t kCount = kPacketData / sizeof(Unit);
  using Parts = Elements<Unit, kCount>;

  /// The first `bytes` bytes at `from`, at most 8, as a word; its other bytes are 0.
  TUTTI_DEVICE static std::uint64_t load_word(const std::byte* from, std::uint64_t bytes) {
    if (is_whole_word(from, bytes)) return load<std::uint64_t>(from);
    Parts parts = {};
    TUTTI_UNROLL
    for (std::uint32_t i = 0; i < kCount; ++i)
      if (i * sizeof(Unit) < bytes) parts.at[i] = load<Unit>(from + i * sizeof(Unit));
    return std::bit_cast<std::uint64_t>(parts);
  }

  TUTTI_DEVICE static void store_word(std::byte* to, std::uint64_t word, std::uint64_t bytes) {
    if (is_whole_word(to, bytes)) return store(to, word);
    const auto parts = std::bit_cast<Parts>(word);
    TUTTI_UNROLL
    for (std::uint32_t i = 0; i < kCount; ++i)
      if (i * sizeof(Unit) < bytes) store(to + i * sizeof(Unit), parts.at[i]);
  }
};

/// Scales each element of the word as kPreMulSum does.
template <class E>
TUTTI_DEVICE inline std::uint64_t scale_word(const Arithmetic& arithmetic, std::uint64_t word) {
  constexpr std::uint32_t kCount = kPacketData / sizeof(typename E::Stored);
  using Parts = Elements<typename E::Stored, kCount>;
  auto parts = std::bit_cast<Parts>(word);
  const auto factor = E::load(std::bit_cast<Parts>(arithmetic.factor_bits).at[0]);
  TUTTI_UNROLL
  for (std::uint32_t i = 0; i < kCount; ++i)
    parts.at[i] = E::store(multiply(E::load(parts.at[i]), factor));
  return std::bit_cast<std::uint64_t>(parts);
}

/// The words of a range: f(word index, offset of the word in bytes, number of its bytes in the
/// range).
template <class Block, class F>
TUTTI_DEVICE inline void for_each_word(const Block& block, std::uint64_t bytes, const F& f) {
  block.for_each((bytes + kPacketData - 1) / kPacketData, [&](std::uint64_t word) {
    const std::uint64_t begin = word * kPacketData;
    f(word, begin, bytes - begin < kPacketData ? bytes - begin : kPacketData);
  });
}

/// As combine() in combine.hpp. `read(s, word, begin, bytes)` returns a word of source s.
template <class E, class Block, class Read>
TUTTI_DEVICE inline void combine_words(const Block& block, const Arithmetic& arithmetic,
                                       bool completes, const Operands& operands,
                                       std::uint64_t elements, const Read& read) {
  using Stored = typename E::Stored;
  using Parts = Elements<Stored, kPacketData / sizeof(Stored)>;
  const auto run = [&](const auto& combined) {
    for_each_word(block, elements * sizeof(Stored),
                  [&](std::uint64_t word, std::uint64_t begin, std::uint64_t bytes) {
                    const std::uint64_t value = combined(word, begin, bytes);
                    for (std::uint32_t d = 0; d < operands.destination_count; ++d)
                      Words<Stored>::store_word(operands.destinations[d] + begin, value, bytes);
                  });
  };
  if (only_copies(arithmetic, operands))
    return run([&](std::uint64_t word, std::uint64_t begin, std::uint64_t bytes) {
      return read(0U, word, begin, bytes);
    });
  with_way(arithmetic.op, [&]<class WayOf>(WayOf) {
    const Combination<E, WayOf::kWay> combination(arithmetic, completes, operands);
    run([&](std::uint64_t word, std::uint64_t begin, std::uint64_t bytes) {
      return std::bit_cast<std::uint64_t>(combination.template run<Parts::kCount, 1>(
          [&](std::uint32_t s) { return std::bit_cast<Parts>(read(s, word, begin, bytes)); }));
    });
  });
}

}  // namespace tutti::device
