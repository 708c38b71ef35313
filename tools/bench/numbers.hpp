// One element of any type as its bits: exact conversions for making and showing test data.
//
// Written apart from the library's own kernels, so that the check does not share their mistakes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/types.hpp"

namespace tutti::bench {

/// The bit pattern of one element in the low size_of(type) bytes; the rest is 0.
using Bits = std::uint64_t;

bool is_float(DataType type);
bool is_signed(DataType type);

/// Significant binary digits of a float type, the hidden one included: 24 for float.
int precision_of(DataType type);

/// The bits of `value` in a float type, or nullopt when the type cannot hold exactly that value.
std::optional<Bits> encode(DataType type, double value);

/// The value of a float type's bits; NaN and infinities included.
double decode(DataType type, Bits bits);

/// The low bytes of `value` that an element of an integer type keeps (arithmetic wraps).
Bits wrap(DataType type, std::uint64_t value);
/// The value of an integer type's bits, sign-extended for signed types.
std::int64_t extend(DataType type, Bits bits);

/// For messages: "-3", "0.5", "nan".
std::string element_text(DataType type, Bits bits);

}  // namespace tutti::bench
