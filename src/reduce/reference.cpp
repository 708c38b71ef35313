#include "src/reduce/reference.hpp"

#include <cstring>
#include <type_traits>

#include "src/base/float_formats.hpp"

namespace tutti {
namespace {

/// What an element is in memory, what it is while it is combined, and how to go between the two.
template <class T>
struct Element {
  using Stored = T;
  using Value = T;
  static Value load(Stored stored) { return stored; }
  static Stored store(Value value) { return value; }
};

template <class Format>
struct NarrowElement {
  using Stored = typename Format::Bits;
  using Value = float;
  static Value load(Stored stored) { return widen<Format>(stored); }
  static Stored store(Value value) { return narrow<Format>(value); }
};

template <class T>
T wrapping_add(T a, T b) {
  using Unsigned = std::make_unsigned_t<T>;
  return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
}

template <class T>
T wrapping_multiply(T a, T b) {
  // In 64 bits, because narrow operands would be promoted to int, whose product can overflow.
  return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

template <class T>
T add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return wrapping_add(a, b);
  } else {
    return a + b;
  }
}

template <class T>
T multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return wrapping_multiply(a, b);
  } else {
    return a * b;
  }
}

/// Truncates toward zero for integers. The divisor need not be representable in T.
template <class T>
T divide(T value, std::int32_t divisor) {
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    return value / static_cast<std::uint64_t>(divisor);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::int64_t>(value) / divisor);
  } else {
    return value / static_cast<T>(divisor);
  }
}

/// `a` unless `b` is strictly better; a NaN is better than anything.
template <class T>
T maximum(T a, T b) {
  return a >= b || a != a ? a : b;
}

template <class T>
T minimum(T a, T b) {
  return a <= b || a != a ? a : b;
}

template <class T>
T combine(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::kProd:
      return multiply(a, b);
    case ReduceOp::kMax:
      return maximum(a, b);
    case ReduceOp::kMin:
      return minimum(a, b);
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
    case ReduceOp::kPreMulSum:
      break;
  }
  return add(a, b);
}

template <class T>
T load_stored(const std::byte* from) {
  T stored;
  std::memcpy(&stored, from, sizeof(T));
  return stored;
}

template <class E>
typename E::Stored reduce_element(const Reduction& reduction,
                                  std::span<const std::byte* const> sources, std::uint64_t scaled,
                                  std::size_t index) {
  using Stored = typename E::Stored;
  const auto operand = [&](std::size_t s) {
    const auto value = E::load(load_stored<Stored>(sources[s] + index * sizeof(Stored)));
    const bool scale = reduction.op == ReduceOp::kPreMulSum && (scaled >> s & 1) != 0;
    if (!scale) return value;
    const auto factor = E::load(load_stored<Stored>(reduction.scalar));
    return E::load(E::store(multiply(value, factor)));
  };
  auto result = operand(0);
  for (std::size_t s = 1; s < sources.size(); ++s) {
    result = combine(reduction.op, result, operand(s));
  }
  if (reduction.op == ReduceOp::kAvg && reduction.divisor != 0) {
    result = divide(result, reduction.divisor);
  }
  return E::store(result);
}

template <class E>
void reduce_elements(const Reduction& reduction, std::span<const std::byte* const> sources,
                     std::uint64_t scaled, std::span<const Destination> destinations,
                     std::size_t count) {
  using Stored = typename E::Stored;
  for (std::size_t i = 0; i < count; ++i) {
    const Stored stored = reduce_element<E>(reduction, sources, scaled, i);
    for (const Destination& destination : destinations) {
      std::memcpy(destination.data + i * sizeof(Stored), &stored, sizeof(Stored));
    }
  }
}

}  // namespace

void reduce_reference(const Reduction& reduction, std::span<const std::byte* const> sources,
                      std::uint64_t scaled, std::span<const Destination> destinations,
                      std::size_t count) {
  const auto run = [&]<class E>(E) {
    reduce_elements<E>(reduction, sources, scaled, destinations, count);
  };
  switch (reduction.type) {
    case DataType::kInt8:
      return run(Element<std::int8_t>{});
    case DataType::kUint8:
      return run(Element<std::uint8_t>{});
    case DataType::kInt32:
      return run(Element<std::int32_t>{});
    case DataType::kUint32:
      return run(Element<std::uint32_t>{});
    case DataType::kInt64:
      return run(Element<std::int64_t>{});
    case DataType::kUint64:
      return run(Element<std::uint64_t>{});
    case DataType::kFloat16:
      return run(NarrowElement<Float16>{});
    case DataType::kFloat32:
      return run(Element<float>{});
    case DataType::kFloat64:
      return run(Element<double>{});
    case DataType::kBfloat16:
      return run(NarrowElement<Bfloat16>{});
    case DataType::kFloat8e4m3:
      return run(NarrowElement<Float8e4m3>{});
    case DataType::kFloat8e5m2:
      return run(NarrowElement<Float8e5m2>{});
  }
}

}  // namespace tutti
