// Floats as integers that a switch can add.
//
// Switches add integers. So a chunk of floats travels as integers of one scale, which all workers
// share, because before they send the chunk they learn the greatest exponent of all (SwitchML,
// section 3.6). The contribution to chunk k carries the exponent code of the worker's chunk k + S,
// with S slots, and the result of chunk k the greatest of all codes. A worker may send k + S only
// after that result, so it always knows the scale in time.
//
// The integers have B = 32 bits, or 16 or 8 where somebody asks for fewer bytes: block floating
// point. Let F = fan(n), n rounded up to a power of two, for n workers. The code of a chunk is the
// least e with |x| < 2^e * (1 - F / 2^B) for all of its values x. Two more codes order themselves:
// kAllZero is less than any e, and kNotFinite, for NaN and infinity, is greater. So the greatest
// code tells all workers whether a chunk has a sum of integers.
//
// With the greatest code E, a step is 2^E * F / 2^(B-1).
//   quantised:  q = x / step, rounded to the nearest integer, ties to even
//   result:     (sum of all q) * step, rounded once to the type, ties to even
// No sum overflows: |x / step| < 2^(B-1) / F - 1/2, so |q| <= 2^(B-1) / F - 1, and n <= F of them
// stay below 2^(B-1).
//
// A worker may multiply its values by a factor first: x is the product then. It has 48 bits, so it
// is exact in double precision.
//
// Error. Dividing by a power of two is exact in double precision, so each q is off by at most half
// a step. The result before its rounding to the type differs from the exact sum by at most
//     n * step / 2 = 0.5 * n * F * 2^E / 2^(B-1),
// that is 0.5 * F * 2^E / 2^(B-1) for each worker and element. Sums are exact if all values are
// multiples of the step: integers up to 2^e are, if 2^e * F <= 2^(B-1). The order of the workers
// makes no difference, so all get the same bits, in every run. Zeros become +0. A sum beyond the
// type's range becomes infinity, as it does in floats.
//
// A packet of 352 float32 takes 98 ns to find its exponent, 62 ns to quantise and 163 ns to turn
// back; of bfloat16 69, 96 and 548 ns, of float16 314, 343 and 934 ns (as in combine.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "tutti/types.hpp"

namespace tutti::in_network {

/// The least e as above, or one of the codes below.
using Exponent = std::int16_t;
inline constexpr Exponent kAllZero = std::numeric_limits<Exponent>::min();
inline constexpr Exponent kNotFinite = std::numeric_limits<Exponent>::max();
/// The least and the greatest e of float32, which has those of float16 and bfloat16, too.
inline constexpr Exponent kLeastExponent = -148;
inline constexpr Exponent kGreatestExponent = 129;

/// Whether a peer may send this code.
constexpr bool is_exponent(Exponent code) {
  return code == kAllZero || code == kNotFinite ||
         (code >= kLeastExponent && code <= kGreatestExponent);
}
/// Whether a chunk with this code has steps: it is neither all zero nor not finite.
constexpr bool has_steps(Exponent code) { return code != kAllZero && code != kNotFinite; }

/// Most workers of a session and all sessions below it.
inline constexpr unsigned kMostMembers = 1024;

/// The types that have exponents: kFloat32, kFloat16, kBfloat16.
constexpr bool is_scaled(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBfloat16;
}

/// The integers that floats become.
struct Fixed {
  unsigned members = 1;  ///< n, 1 .. kMostMembers
  unsigned bits = 32;    ///< B: 32, 16 or 8
};
/// Whether sums keep some precision: at least 4 bits for each worker's values, the sign included.
constexpr bool has_precision(const Fixed& fixed) {
  const bool known = fixed.bits == 32 || fixed.bits == 16 || fixed.bits == 8;
  return known && std::uint64_t{fixed.members} << 4 <= std::uint64_t{1} << fixed.bits;
}

/// The code of `count` values of `type`, each times `factor`. kNotFinite also where a product is
/// beyond float32. has_precision(fixed).
Exponent exponent_of(DataType type, const std::byte* values, std::size_t count, const Fixed& fixed,
                     float factor = 1);

/// What turns a chunk into integers and back.
struct Scale {
  double step = 1;
  unsigned bits = 32;
};
/// For has_steps(greatest) and has_precision(fixed).
Scale scale_of(Exponent greatest, const Fixed& fixed);

/// Writes `count` little-endian integers: values[i] * factor / step, rounded. The exponent of
/// `values` must be at most the one that the scale comes from. If it is not, because somebody
/// changed the values, the integers are any.
void quantise(DataType type, const std::byte* values, std::size_t count, const Scale& scale,
              std::byte* out, float factor = 1);

/// out[i] = sums[i] * step, rounded to `type`.
void dequantise(DataType type, std::span<const std::byte> sums, const Scale& scale, std::byte* out);

}  // namespace tutti::in_network
