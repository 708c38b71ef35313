// Conversions for the element types of models: float32, bfloat16 and float16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tutti/types.hpp"

namespace tutti::training {

/// Whether models can compute in this type.
constexpr bool is_model_type(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kBfloat16 || type == DataType::kFloat16;
}

/// Size of one element of such a type.
constexpr std::size_t bytes_of(DataType type) { return type == DataType::kFloat32 ? 4 : 2; }

/// Bytes that hold float32, as floats.
inline std::span<float> as_floats(std::span<std::byte> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

/// Writes values as elements of `type`, rounded to nearest, ties to even. `into` must hold as many.
void write_as(DataType type, std::span<const float> values, std::span<std::byte> into);
/// values = the elements of `type` in `from`.
void read_as(DataType type, std::span<const std::byte> from, std::span<float> values);
/// values += the elements of `type` in `from`.
void add_as(DataType type, std::span<const std::byte> from, std::span<float> values);

}  // namespace tutti::training
