// The norm of gradients that are sharded over many ranks. All ranks get the same bits, for every
// sharding and every number of ranks.
//
// Sums of floats depend on their order, and sharding changes the order. So squares are added as
// integers, whose sum does not. The ranks first agree on the largest magnitude. Each square then
// becomes a multiple of a fixed fraction of the square of the power of two above that magnitude.
// (Reproducible summation with a common exponent: Demmel and Nguyen, ARITH 2013.)
//
//   magnitude()   of this rank's part; the ranks agree on the largest by kMax
//   squares()     of this rank's part, given the largest; the ranks add both words by kSum
//   norm()        of the sums
//
// For n elements the rounding error is less than n / 2^(2d + 1) of the largest square, where d is
// the smaller of 40 and 62 minus the bits of n. For 2^32 elements it is 2^-27.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::training {

/// The largest magnitude; infinite if a gradient is infinite or NaN. 0 without elements.
float magnitude(std::span<const float> gradients);

/// A sum of squares. Its unit is the square of the power of two above the largest magnitude. The
/// sum is `high` times 2^-d plus `low` (which may be negative) times 2^-2d. Value.
struct Squares {
  std::int64_t high = 0, low = 0;
  friend bool operator==(const Squares&, const Squares&) = default;
};

/// `elements`: over all ranks. The result is 0 if `largest` is 0 or infinite.
Squares squares(std::span<const float> gradients, float largest, std::size_t elements);

/// The square root of the value of `sum`. NaN if `largest` is infinite.
double norm(const Squares& sum, float largest, std::size_t elements);

}  // namespace tutti::training
