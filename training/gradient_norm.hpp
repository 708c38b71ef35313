// The norm of gradients that lie in shards on many ranks: the same bits on all ranks, for every way
// to shard and every number of ranks.
//
// Sums of floats depend on their order, and sharding changes that. So squares are added as
// integers, which add up in any order: the ranks agree on the largest magnitude of all first, and
// each square becomes a multiple of a fixed part of its square. (Reproducible summation with a
// common exponent: Demmel and Nguyen, ARITH 2013.)
//
//   magnitude()   of this rank's part; the ranks agree on the largest by kMax
//   squares()     of this rank's part, given that; the ranks add up both words by kSum
//   norm()        of the sums
//
// Of n elements what is rounded away is less than n / 2^(2u) of the largest square, u being 63 less
// the bits of n: 2^-28 for 2^32 elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::training {

/// The largest magnitude; infinite where a gradient is infinite or no number. 0 for no elements.
float magnitude(std::span<const float> gradients);

/// A sum of squares: `high` in units of largest^2 / 2^u, `low` in 2^-u of such a unit, where u is
/// 63 less the bits of the number of elements. Value.
struct Squares {
  std::uint64_t high = 0, low = 0;
  friend bool operator==(const Squares&, const Squares&) = default;
};

/// `elements`: of all ranks together. 0 where `largest` is 0 or infinite.
Squares squares(std::span<const float> gradients, float largest, std::size_t elements);

/// The square root of what `sum` means. NaN where `largest` is infinite.
double norm(const Squares& sum, float largest, std::size_t elements);

}  // namespace tutti::training
