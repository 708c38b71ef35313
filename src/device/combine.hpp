// Destinations = combination of the sources, over a range of elements.
//
// If all operands have the same offset from a multiple of 16 bytes, it loads and stores vectors of
// 16 bytes, and only the head and the tail by element. Otherwise everything goes by element. The
// result is the same.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "src/base/device_macros.hpp"
#include "src/device/arithmetic.hpp"

namespace tutti::device {

inline constexpr std::uint32_t kMaxSources = 64;
inline constexpr std::uint32_t kMaxDestinations = 8;
inline constexpr std::uint64_t kVectorBytes = 16;

/// What one pass reads and writes. All pointers are multiples of an element's size. A destination
/// may equal a source exactly; any other overlap is undefined.
struct Operands {
  const std::byte* sources[kMaxSources];
  std::byte* destinations[kMaxDestinations];
  std::uint32_t source_count;       ///< 1 .. kMaxSources
  std::uint32_t destination_count;  ///< 1 .. kMaxDestinations
  std::uint64_t scaled;             ///< bit s: kPreMulSum scales source s first
};

/// Adjacent elements.
template <class Stored, std::uint32_t kElements>
struct Elements {
  static constexpr std::uint32_t kCount = kElements;
  Stored at[kElements];
};

struct alignas(kVectorBytes) Vector {
  std::uint64_t words[2];
};

/// `from` must be a multiple of T's alignment.
template <class T>
TUTTI_DEVICE inline T load(const std::byte* from) {
#if defined(__CUDA_ARCH__)
  return *reinterpret_cast<const T*>(from);
#else
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
#endif
}

template <class T>
TUTTI_DEVICE inline void store(std::byte* to, T value) {
#if defined(__CUDA_ARCH__)
  *reinterpret_cast<T*>(to) = value;
#else
  std::memcpy(to, &value, sizeof value);
#endif
}

/// How a pass combines elements of type E.
template <class E, Way kWay>
class Combination {
 public:
  using Stored = typename E::Stored;
  using Value = typename E::Value;

  /// `completes`: kAvg divides.
  TUTTI_DEVICE Combination(const Arithmetic& arithmetic, bool completes, const Operands& operands)
      : divisor_(completes && arithmetic.op == ReduceOp::kAvg ? arithmetic.divisor : 0),
        sources_(operands.source_count),
        scaled_(operands.scaled),
        factor_(E::load(first_element(arithmetic.factor_bits))) {}

  /// Combines kCount elements. `read(s)` returns those of source s. At most kAtOnce sources are
  /// loaded at the same time.
  template <std::uint32_t kCount, std::uint32_t kAtOnce, class Read>
  TUTTI_DEVICE Elements<Stored, kCount> run(const Read& read) const {
    Value values[kCount];
    const Elements<Stored, kCount> first = read(0U);
    TUTTI_UNROLL
    for (std::uint32_t i = 0; i < kCount; ++i) values[i] = operand(0, first.at[i]);
    TUTTI_UNROLL_SOURCES
    for (std::uint32_t s = 1; s < sources_; ++s) {
      const Elements<Stored, kCount> next = read(s);
      TUTTI_UNROLL
      for (std::uint32_t i = 0; i < kCount; ++i)
        values[i] = combine_two<kWay>(values[i], operand(s, next.at[i]));
    }
    Elements<Stored, kCount> result;
    TUTTI_UNROLL
    for (std::uint32_t i = 0; i < kCount; ++i) result.at[i] = E::store(completed(values[i]));
    return result;
  }

 private:
  TUTTI_DEVICE static Stored first_element(std::uint64_t bits) {
    return std::bit_cast<Elements<Stored, 8 / sizeof(Stored)>>(bits).at[0];
  }

  TUTTI_DEVICE Value operand(std::uint32_t source, Stored stored) const {
    const Value value = E::load(stored);
    if constexpr (kWay == Way::kScaledAdd)
      if ((scaled_ >> source & 1) != 0) return E::load(E::store(multiply(value, factor_)));
    return value;
  }

  TUTTI_DEVICE Value completed(Value value) const {
    if constexpr (kWay == Way::kAdd)
      if (divisor_ != 0) return divide(value, divisor_);
    return value;
  }

  std::int32_t divisor_;  // 0: none
  std::uint32_t sources_;
  std::uint64_t scaled_;
  Value factor_;
};

/// How a range is split into single elements and vectors, if all operands allow vectors.
struct Split {
  std::uint64_t head = 0;  ///< elements before the first vector
  std::uint64_t vectors = 0;
};

TUTTI_DEVICE inline Split split_of(const Operands& operands, std::uint64_t elements,
                                   std::uint64_t element_bytes) {
  const auto misfit = [](const std::byte* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % kVectorBytes;
  };
  const std::uint64_t offset = misfit(operands.sources[0]);
  for (std::uint32_t s = 1; s < operands.source_count; ++s)
    if (misfit(operands.sources[s]) != offset) return {elements, 0};
  for (std::uint32_t d = 0; d < operands.destination_count; ++d)
    if (misfit(operands.destinations[d]) != offset) return {elements, 0};
  const std::uint64_t head = (kVectorBytes - offset) % kVectorBytes / element_bytes;
  if (head >= elements) return {elements, 0};
  return {head, (elements - head) * element_bytes / kVectorBytes};
}

/// Calls visit_one(e) for each single element, visit_vector(e) for the first element of each
/// vector.
template <class Block, class One, class Many>
TUTTI_DEVICE inline void for_each_part(const Block& block, const Split& split,
                                       std::uint64_t elements, std::uint64_t element_bytes,
                                       const One& visit_one, const Many& visit_vector) {
  const std::uint64_t per_vector = kVectorBytes / element_bytes;
  const std::uint64_t in_vectors = split.vectors * per_vector;
  block.for_each(split.vectors,
                 [&](std::uint64_t v) { visit_vector(split.head + v * per_vector); });
  block.for_each(elements - in_vectors,
                 [&](std::uint64_t i) { visit_one(i < split.head ? i : i + in_vectors); });
}

/// The integer of kBytes bytes.
template <std::size_t kBytes>
using UnitOf = std::conditional_t<
    kBytes == 1, std::uint8_t,
    std::conditional_t<kBytes == 2, std::uint16_t,
                       std::conditional_t<kBytes == 4, std::uint32_t, std::uint64_t>>>;

/// Copies elements of Unit's size from the only source to the destinations.
template <class Unit, class Block>
TUTTI_DEVICE inline void copy_units(const Block& block, const Operands& operands,
                                    std::uint64_t elements) {
  const auto copy = [&]<class T>(std::uint64_t element, T) {
    const std::uint64_t at = element * sizeof(Unit);
    const T value = load<T>(operands.sources[0] + at);
    for (std::uint32_t d = 0; d < operands.destination_count; ++d)
      store(operands.destinations[d] + at, value);
  };
  for_each_part(
      block, split_of(operands, elements, sizeof(Unit)), elements, sizeof(Unit),
      [&](std::uint64_t element) { copy(element, Unit{}); },
      [&](std::uint64_t element) { copy(element, Vector{}); });
}

template <class E, Way kWay, class Block>
TUTTI_DEVICE inline void combine_elements(const Block& block, const Arithmetic& arithmetic,
                                          bool completes, const Operands& operands,
                                          std::uint64_t elements) {
  using Stored = typename E::Stored;
  constexpr std::uint32_t kPerVector = kVectorBytes / sizeof(Stored);
  constexpr std::uint32_t kAtOnce =
      sizeof(Stored) >= 4 ? 4 : sizeof(Stored);  // limited by registers
  const Combination<E, kWay> combination(arithmetic, completes, operands);
  const auto one = [&](std::uint64_t element) {
    const std::uint64_t at = element * sizeof(Stored);
    const auto result = combination.template run<1, 1>([&](std::uint32_t s) {
      return Elements<Stored, 1>{{load<Stored>(operands.sources[s] + at)}};
    });
    for (std::uint32_t d = 0; d < operands.destination_count; ++d)
      store(operands.destinations[d] + at, result.at[0]);
  };
  const auto many = [&](std::uint64_t element) {
    const std::uint64_t at = element * sizeof(Stored);
    const auto result = combination.template run<kPerVector, kAtOnce>([&](std::uint32_t s) {
      return std::bit_cast<Elements<Stored, kPerVector>>(load<Vector>(operands.sources[s] + at));
    });
    for (std::uint32_t d = 0; d < operands.destination_count; ++d)
      store(operands.destinations[d] + at, std::bit_cast<Vector>(result));
  };
  for_each_part(block, split_of(operands, elements, sizeof(Stored)), elements, sizeof(Stored), one,
                many);
}

/// Whether a pass copies its source unchanged.
TUTTI_DEVICE inline bool only_copies(const Arithmetic& arithmetic, const Operands& operands) {
  return operands.source_count == 1 &&
         (arithmetic.op != ReduceOp::kPreMulSum || operands.scaled == 0);
}

/// All threads of the block call it; it has no barrier. `completes`: kAvg divides.
template <class Types = AllTypes, class Block>
TUTTI_DEVICE inline void combine(const Block& block, const Arithmetic& arithmetic, bool completes,
                                 const Operands& operands, std::uint64_t elements) {
  Types::with_element(arithmetic.type, [&]<class E>(E) {
    using Stored = typename E::Stored;
    if (only_copies(arithmetic, operands))
      return copy_units<UnitOf<sizeof(Stored)>>(block, operands, elements);
    with_way(arithmetic.op, [&]<class WayOf>(WayOf) {
      combine_elements<E, WayOf::kWay>(block, arithmetic, completes, operands, elements);
    });
  });
}

}  // namespace tutti::device
