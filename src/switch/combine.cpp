#include "src/switch/combine.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace tutti::in_network {
namespace {

/// Loads, combines and stores as `T`, so that the loop has no branch and becomes vector code.
template <class T, class Operator>
void combine_as(std::span<std::byte> sums, const std::byte* values, Operator combined) {
  const std::size_t count = sums.size() / sizeof(T);
  std::byte* const out = sums.data();
  for (std::size_t i = 0; i < count; ++i) {
    T sum;
    T value;
    std::memcpy(&sum, out + i * sizeof sum, sizeof sum);
    std::memcpy(&value, values + i * sizeof value, sizeof value);
    sum = combined(sum, value);
    std::memcpy(out + i * sizeof sum, &sum, sizeof sum);
  }
}

/// Unsigned, because those wrap.
template <class T>
void add(std::span<std::byte> sums, const std::byte* values) {
  using Wrapping = std::make_unsigned_t<T>;
  combine_as<Wrapping>(sums, values, [](Wrapping a, Wrapping b) { return Wrapping(a + b); });
}
/// `which` of the three lanes of a type.
template <class T>
void combine_lanes(int which, std::span<std::byte> sums, const std::byte* values) {
  if (which == 0) return add<T>(sums, values);
  if (which == 1) return combine_as<T>(sums, values, [](T a, T b) { return std::min(a, b); });
  combine_as<T>(sums, values, [](T a, T b) { return std::max(a, b); });
}

}  // namespace

void combine(Lanes lanes, std::span<std::byte> sums, std::span<const std::byte> values) {
  const std::byte* const from = values.data();
  if (lanes == Lanes::kWords) {
    std::memcpy(sums.data(), from, sums.size());
    return;
  }
  if (lanes == Lanes::kInt16Sum) return add<std::int16_t>(sums, from);
  const int which = static_cast<int>(lanes) % 3;
  switch (static_cast<DataType>(static_cast<int>(lanes) / 3)) {
    case DataType::kInt8:
      return combine_lanes<std::int8_t>(which, sums, from);
    case DataType::kUint8:
      return combine_lanes<std::uint8_t>(which, sums, from);
    case DataType::kInt32:
      return combine_lanes<std::int32_t>(which, sums, from);
    case DataType::kUint32:
      return combine_lanes<std::uint32_t>(which, sums, from);
    case DataType::kInt64:
      return combine_lanes<std::int64_t>(which, sums, from);
    default:
      return combine_lanes<std::uint64_t>(which, sums, from);
  }
}

}  // namespace tutti::in_network
