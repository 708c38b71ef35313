#include "src/switch/combine.hpp"

#include <algorithm>
#include <cstring>

namespace tutti::in_network {
namespace {

/// Loads, combines and stores as `T`, so that the loop has no branch and becomes vector code.
template <class T, class Operator>
void combine_as(std::span<std::int32_t> sums, const std::byte* values, Operator combined) {
  const std::size_t count = sums.size();
  std::int32_t* const out = sums.data();
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, values + i * sizeof value, sizeof value);
    out[i] = static_cast<std::int32_t>(combined(static_cast<T>(out[i]), value));
  }
}

template <class T>
void combine_least(std::span<std::int32_t> sums, const std::byte* values) {
  combine_as<T>(sums, values, [](T a, T b) { return b < a ? b : a; });
}
template <class T>
void combine_greatest(std::span<std::int32_t> sums, const std::byte* values) {
  combine_as<T>(sums, values, [](T a, T b) { return a < b ? b : a; });
}

}  // namespace

void combine(Lanes lanes, std::span<std::int32_t> sums, std::span<const std::byte> values) {
  switch (lanes) {
    case Lanes::kInt32Min:
      return combine_least<std::int32_t>(sums, values.data());
    case Lanes::kInt32Max:
      return combine_greatest<std::int32_t>(sums, values.data());
    case Lanes::kUint32Min:
      return combine_least<std::uint32_t>(sums, values.data());
    case Lanes::kUint32Max:
      return combine_greatest<std::uint32_t>(sums, values.data());
    case Lanes::kWords:
      std::memcpy(sums.data(), values.data(), sums.size_bytes());
      return;
    case Lanes::kInt32Sum:
    case Lanes::kUint32Sum:
    case Lanes::kFloat32Sum:
    case Lanes::kFloat16Sum:
    case Lanes::kBfloat16Sum:  // unsigned, because those wrap
      return combine_as<std::uint32_t>(sums, values.data(),
                                       [](std::uint32_t a, std::uint32_t b) { return a + b; });
  }
}

}  // namespace tutti::in_network
