// Passes over small data, of which some sources come in packets: a word of 8 bytes at a time.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "src/device/arithmetic.hpp"
#include "src/device/combine.hpp"
#include "src/device/macros.hpp"
#include "src/device/packets.hpp"

namespace tutti::device {

/// Elements of a size within one word, whatever their type.
template <class Unit>
struct WordParts {
  static constexpr std::uint32_t kCount = kPacketData / sizeof(Unit);
  using Parts = Elements<Unit, kCount>;

  TUTTI_DEVICE static std::uint64_t load_some(const std::byte* from, std::uint64_t bytes) {
    Parts parts = {};
    TUTTI_UNROLL
    for (std::uint32_t i = 0; i < kCount; ++i)
      if (i * sizeof(Unit) < bytes) parts.at[i] = load<Unit>(from + i * sizeof(Unit));
    return std::bit_cast<std::uint64_t>(parts);
  }

  TUTTI_DEVICE static void store_some(std::byte* to, std::uint64_t word, std::uint64_t bytes) {
    const auto parts = std::bit_cast<Parts>(word);
    TUTTI_UNROLL
    for (std::uint32_t i = 0; i < kCount; ++i)
      if (i * sizeof(Unit) < bytes) store(to + i * sizeof(Unit), parts.at[i]);
  }
};

TUTTI_DEVICE inline bool is_whole_word(const std::byte* at, std::uint64_t bytes) {
  return bytes >= kPacketData && reinterpret_cast<std::uintptr_t>(at) % kPacketData == 0;
}

/// The first `bytes` bytes there, at most 8, as a word; the rest of it is 0.
TUTTI_DEVICE inline std::uint64_t load_word(const std::byte* from, std::uint64_t bytes,
                                            std::uint64_t element_bytes) {
  if (is_whole_word(from, bytes)) return load<std::uint64_t>(from);
  if (element_bytes == 1) return WordParts<std::uint8_t>::load_some(from, bytes);
  if (element_bytes == 2) return WordParts<std::uint16_t>::load_some(from, bytes);
  if (element_bytes == 4) return WordParts<std::uint32_t>::load_some(from, bytes);
  return WordParts<std::uint64_t>::load_some(from, bytes);
}

TUTTI_DEVICE inline void store_word(std::byte* to, std::uint64_t word, std::uint64_t bytes,
                                    std::uint64_t element_bytes) {
  if (is_whole_word(to, bytes)) return store(to, word);
  if (element_bytes == 1) return WordParts<std::uint8_t>::store_some(to, word, bytes);
  if (element_bytes == 2) return WordParts<std::uint16_t>::store_some(to, word, bytes);
  if (element_bytes == 4) return WordParts<std::uint32_t>::store_some(to, word, bytes);
  return WordParts<std::uint64_t>::store_some(to, word, bytes);
}

/// Each element of the word, scaled as kPreMulSum does.
TUTTI_DEVICE inline std::uint64_t scale_word(const Arithmetic& arithmetic, std::uint64_t word) {
  std::uint64_t scaled = 0;
  with_element(arithmetic.type, [&]<class E>(E) {
    constexpr std::uint32_t kCount = kPacketData / sizeof(typename E::Stored);
    using Parts = Elements<typename E::Stored, kCount>;
    auto parts = std::bit_cast<Parts>(word);
    const auto factor = E::load(std::bit_cast<Parts>(arithmetic.factor_bits).at[0]);
    TUTTI_UNROLL
    for (std::uint32_t i = 0; i < kCount; ++i)
      parts.at[i] = E::store(multiply(E::load(parts.at[i]), factor));
    scaled = std::bit_cast<std::uint64_t>(parts);
  });
  return scaled;
}

/// The words of a range: f(word, bytes behind the begin, bytes of it that are there).
template <class Block, class F>
TUTTI_DEVICE inline void for_each_word(const Block& block, std::uint64_t bytes, const F& f) {
  block.for_each((bytes + kPacketData - 1) / kPacketData, [&](std::uint64_t word) {
    const std::uint64_t begin = word * kPacketData;
    f(word, begin, bytes - begin < kPacketData ? bytes - begin : kPacketData);
  });
}

/// As combine() in combine.hpp; `read(s, word, begin, bytes)` yields a word of source s.
template <class Block, class Read>
TUTTI_DEVICE inline void combine_words(const Block& block, const Arithmetic& arithmetic,
                                       bool completes, const Operands& operands,
                                       std::uint64_t elements, const Read& read) {
  const std::uint64_t element_bytes = size_of(arithmetic.type);
  const auto write = [&](std::uint64_t begin, std::uint64_t value, std::uint64_t bytes) {
    for (std::uint32_t d = 0; d < operands.destination_count; ++d)
      store_word(operands.destinations[d] + begin, value, bytes, element_bytes);
  };
  if (only_copies(arithmetic, operands))
    return for_each_word(block, elements * element_bytes,
                         [&](std::uint64_t word, std::uint64_t begin, std::uint64_t bytes) {
                           write(begin, read(0U, word, begin, bytes), bytes);
                         });
  with_element(arithmetic.type, [&]<class E>(E) {
    with_way(arithmetic.op, completes, [&]<class WayOf>(WayOf) {
      constexpr std::uint32_t kCount = kPacketData / sizeof(typename E::Stored);
      using Parts = Elements<typename E::Stored, kCount>;
      const Combination<E, WayOf::value> combination(arithmetic, operands);
      for_each_word(block, elements * element_bytes,
                    [&](std::uint64_t word, std::uint64_t begin, std::uint64_t bytes) {
                      const Parts result = combination.template run<kCount>([&](std::uint32_t s) {
                        return std::bit_cast<Parts>(read(s, word, begin, bytes));
                      });
                      write(begin, std::bit_cast<std::uint64_t>(result), bytes);
                    });
    });
  });
}

}  // namespace tutti::device
