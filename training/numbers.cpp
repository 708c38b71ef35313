#include "training/numbers.hpp"

#include <bit>
#include <cstring>

namespace tutti::training {
namespace {

std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

float from_bfloat16(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

std::uint16_t to_float16(float value) {
  return std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
}

float from_float16(std::uint16_t value) {
  return static_cast<float>(std::bit_cast<_Float16>(value));
}

template <auto kConvert>
void write_halves(std::span<const float> values, std::byte* into) {
  auto* const halves = reinterpret_cast<std::uint16_t*>(into);
  for (std::size_t i = 0; i < values.size(); ++i) halves[i] = kConvert(values[i]);
}

template <auto kConvert, bool kAdds>
void read_halves(const std::byte* from, std::span<float> values) {
  const auto* const halves = reinterpret_cast<const std::uint16_t*>(from);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = kAdds ? values[i] + kConvert(halves[i]) : kConvert(halves[i]);
}

}  // namespace

void write_as(DataType type, std::span<const float> values, std::span<std::byte> into) {
  if (values.empty()) return;
  if (type == DataType::kFloat32) std::memmove(into.data(), values.data(), values.size_bytes());
  if (type == DataType::kBfloat16) write_halves<to_bfloat16>(values, into.data());
  if (type == DataType::kFloat16) write_halves<to_float16>(values, into.data());
}

void read_as(DataType type, std::span<const std::byte> from, std::span<float> values) {
  if (values.empty()) return;
  if (type == DataType::kFloat32) std::memmove(values.data(), from.data(), values.size_bytes());
  if (type == DataType::kBfloat16) read_halves<from_bfloat16, false>(from.data(), values);
  if (type == DataType::kFloat16) read_halves<from_float16, false>(from.data(), values);
}

void add_as(DataType type, std::span<const std::byte> from, std::span<float> values) {
  if (type == DataType::kFloat32) {
    const auto* const numbers = reinterpret_cast<const float*>(from.data());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += numbers[i];
  }
  if (type == DataType::kBfloat16) read_halves<from_bfloat16, true>(from.data(), values);
  if (type == DataType::kFloat16) read_halves<from_float16, true>(from.data(), values);
}

}  // namespace tutti::training
