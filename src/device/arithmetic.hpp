// The arithmetic of reductions, one element at a time. Computes the same bits as
// src/reduce/reference.cpp.
//
// Integers wrap. 8- and 16-bit floats are widened to float32, combined in source order and rounded
// once. A scaled element is rounded as if it had been stored and read back. For max and min a NaN
// operand yields NaN, and of equal operands the earlier one stays. Multiplications and additions
// must not be fused, so the GPU code is compiled with -fmad=false.
#pragma once

#include <cstdint>
#include <type_traits>

#include "src/base/device_macros.hpp"
#include "src/base/float_formats.hpp"
#include "tutti/types.hpp"

namespace tutti::device {

/// An element's type in memory, its type while it is combined, and the conversions between them.
template <class T>
struct Plain {
  using Stored = T;
  using Value = T;
  TUTTI_DEVICE static Value load(Stored stored) { return stored; }
  TUTTI_DEVICE static Stored store(Value value) { return value; }
};

template <class Format>
struct Narrow {
  using Stored = typename Format::Bits;
  using Value = float;
  TUTTI_DEVICE static Value load(Stored stored) { return widen<Format>(stored); }
  TUTTI_DEVICE static Stored store(Value value) { return narrow<Format>(value); }
};

/// What a reduction does with elements between sources and destinations.
enum class Way : std::uint8_t {
  kAdd,
  kMultiply,
  kMaximum,
  kMinimum,
  kScaledAdd,  ///< scales some, then adds all
};

template <class T>
TUTTI_DEVICE inline T add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

template <class T>
TUTTI_DEVICE inline T multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    // In at least 32 unsigned bits: narrower types would be promoted to int and might overflow.
    using Wide = std::conditional_t<(sizeof(T) < 4), std::uint32_t, std::make_unsigned_t<T>>;
    return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
  } else {
    return a * b;
  }
}

/// Integers truncate toward zero. `divisor` > 0.
template <class T>
TUTTI_DEVICE inline T divide(T value, std::int32_t divisor) {
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) <= 4) {
    return static_cast<T>(static_cast<std::int32_t>(value) / divisor);
  } else if constexpr (std::is_integral_v<T> && sizeof(T) <= 4) {
    return static_cast<T>(static_cast<std::uint32_t>(value) / static_cast<std::uint32_t>(divisor));
  } else {
    return value / static_cast<T>(divisor);
  }
}

template <class T>
TUTTI_DEVICE inline bool is_nan(T value) {
  return value != value;  // NOLINT(misc-redundant-expression)
}

template <Way kWay, class T>
TUTTI_DEVICE inline T combine_two(T a, T b) {
  if constexpr (kWay == Way::kMultiply) {
    return multiply(a, b);
  } else if constexpr (kWay == Way::kMaximum) {
    return a >= b || is_nan(a) ? a : b;
  } else if constexpr (kWay == Way::kMinimum) {
    return a <= b || is_nan(a) ? a : b;
  } else {
    return add(a, b);
  }
}

/// The operator of a reduction and its parameters. Plain data.
struct Arithmetic {
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::uint16_t padding = 0;
  std::int32_t divisor = 0;       ///< kAvg: divisor of complete sums; > 0
  std::uint64_t factor_bits = 0;  ///< kPreMulSum: one element of `type`, in the low bytes
};
static_assert(std::has_unique_object_representations_v<Arithmetic>);

/// Calls f(E{}) for the element E of `type`.
template <class F>
TUTTI_DEVICE inline void with_element(DataType type, const F& f) {
  switch (type) {
    case DataType::kInt8:
      return f(Plain<std::int8_t>{});
    case DataType::kUint8:
      return f(Plain<std::uint8_t>{});
    case DataType::kInt32:
      return f(Plain<std::int32_t>{});
    case DataType::kUint32:
      return f(Plain<std::uint32_t>{});
    case DataType::kInt64:
      return f(Plain<std::int64_t>{});
    case DataType::kUint64:
      return f(Plain<std::uint64_t>{});
    case DataType::kFloat16:
      return f(Narrow<Float16>{});
    case DataType::kFloat32:
      return f(Plain<float>{});
    case DataType::kFloat64:
      return f(Plain<double>{});
    case DataType::kBfloat16:
      return f(Narrow<Bfloat16>{});
    case DataType::kFloat8e4m3:
      return f(Narrow<Float8e4m3>{});
    case DataType::kFloat8e5m2:
      return f(Narrow<Float8e5m2>{});
  }
}

/// The types that code is generated for. Each kernel serves one type, which keeps it small.
struct AllTypes {
  template <class F>
  TUTTI_DEVICE static void with_element(DataType type, const F& f) {
    tutti::device::with_element(type, f);
  }
};
template <class E>
struct OneType {
  template <class F>
  TUTTI_DEVICE static void with_element(DataType, const F& f) {
    f(E{});
  }
};

template <Way kTheWay>
struct WayTag {
  static constexpr Way kWay = kTheWay;
};

/// Calls f(WayTag<...>{}) for the operator.
template <class F>
TUTTI_DEVICE inline void with_way(ReduceOp op, const F& f) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return f(WayTag<Way::kAdd>{});
    case ReduceOp::kProd:
      return f(WayTag<Way::kMultiply>{});
    case ReduceOp::kMax:
      return f(WayTag<Way::kMaximum>{});
    case ReduceOp::kMin:
      return f(WayTag<Way::kMinimum>{});
    case ReduceOp::kPreMulSum:
      return f(WayTag<Way::kScaledAdd>{});
  }
}

}  // namespace tutti::device
