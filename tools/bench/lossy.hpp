// Data for compressed calls, whose results are right within bounds and not to the bit: floats of
// several magnitudes, and what the collective makes of them in double.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "src/codec/compression.hpp"
#include "tools/bench/data.hpp"
#include "tools/bench/shape.hpp"

namespace tutti::bench {

/// How far results are off, over all elements: of the largest magnitude that was wanted, and of the
/// mean magnitude. Value; sums and maxima, so that ranks can combine theirs.
struct Losses {
  double largest_off = 0, largest_wanted = 0;
  double sum_off = 0, sum_wanted = 0;
  [[nodiscard]] double max_relative() const {
    return largest_wanted > 0 ? largest_off / largest_wanted : largest_off;
  }
  [[nodiscard]] double mean_relative() const {
    return sum_wanted > 0 ? sum_off / sum_wanted : sum_off;
  }
};

/// Makes and checks the buffers of one shape, whose type is float, half or bfloat16. Immutable; any
/// thread.
class LossyData {
 public:
  LossyData(const Shape& shape, const codec::FormatTraits& format, bool random_rounding)
      : shape_(shape),
        error_(format.error * (random_rounding ? 2 : 1) * steps_of(shape, format)),
        least_(format.least) {}

  /// As Data::fill().
  void fill(Rank rank, std::uint64_t iteration, std::byte* send) const;
  /// As Data::check(): wrong is what is off by more than the format's error allows, after as many
  /// roundings as a compressed call makes at most (kMostRoundings), or once where a network may
  /// have added what is encoded. Adds to `losses`.
  [[nodiscard]] Findings check(Rank rank, std::uint64_t iteration, const std::byte* recv,
                               Losses& losses) const;

  static constexpr int kMostRoundings = 3;

 private:
  /// A network that adds has coarser steps: src/switch/exponents.hpp.
  static double steps_of(const Shape& shape, const codec::FormatTraits& format) {
    return format.network_bits == 0 ? 1 : std::bit_ceil(static_cast<unsigned>(shape.ranks));
  }
  [[nodiscard]] float value(Rank rank, std::uint64_t iteration, std::size_t element) const;
  [[nodiscard]] double wanted(Rank rank, std::uint64_t iteration, std::size_t element) const;
  [[nodiscard]] double bound() const;

  Shape shape_;
  double error_, least_;
};

/// Whether a compression changes a shape's results: what is not float travels as it is.
bool is_lossy(const Shape& shape);

}  // namespace tutti::bench
