// The norm of gradients that lie in shards on many ranks: the same bits on all ranks, for every way
// to shard and every number of ranks.
//
// Sums of floats depend on their order, and sharding changes that. So squares are added as
// integers, which add up in any order: the ranks agree on the largest magnitude of all first, and
// each square becomes a multiple of a fixed part of the power of two above its square.
// (Reproducible summation with a common exponent: Demmel and Nguyen, ARITH 2013.)
//
//   magnitude()   of this rank's part; the ranks agree on the largest by kMax
//   squares()     of this rank's part, given that; the ranks add up both words by kSum
//   norm()        of the sums
//
// Of n elements what is rounded away is less than n / 2^(2d + 1) of the largest square, d being 40,
// or 62 less the bits of n where that is less: 2^-27 for 2^32 elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::training {

/// The largest magnitude; infinite where a gradient is infinite or no number. 0 for no elements.
float magnitude(std::span<const float> gradients);

/// A sum of squares in units of the square of the power of two above the largest magnitude: `high`
/// times 2^-d and `low`, which may be negative, times 2^-2d. Value.
struct Squares {
  std::int64_t high = 0, low = 0;
  friend bool operator==(const Squares&, const Squares&) = default;
};

/// `elements`: of all ranks together. 0 where `largest` is 0 or infinite.
Squares squares(std::span<const float> gradients, float largest, std::size_t elements);

/// The square root of what `sum` means. NaN where `largest` is infinite.
double norm(const Squares& sum, float largest, std::size_t elements);

}  // namespace tutti::training
