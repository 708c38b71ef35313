// Test data whose result is known without a second implementation, and the check of results.
//
// Collectives that only move data carry *streams*: random bytes determined by (rank, block,
// iteration), compared bit for bit.
//
// Reductions carry a *palette*. For every element a hash of (index, iteration) draws a shade and a
// rotation; rank r then holds palette entry (r + rotation) mod n of that shade. Every rank order
// and every grouping of an entry's n numbers gives the same bits, because all partial results are
// representable in the type: sums stay below 2^precision units, products are powers of two with
// one odd factor, sums to be averaged are multiples of n, integers wrap. So the result depends on
// (shade, rotation) alone and is looked up; no tolerance is needed for any type or operator.
//
// The data of two iterations differ, so a stale buffer does not pass for a right one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/bench/numbers.hpp"
#include "tools/bench/shape.hpp"
#include "tutti/types.hpp"

namespace tutti::bench {

/// The factor that mulsum gives to a rank's input: 1 on even ranks, 2 on odd ones.
constexpr int mulsum_factor(Rank rank) { return 1 + rank % 2; }

class Palette {
 public:
  static constexpr std::uint32_t kShades = 32;

  Palette(DataType type, ReduceOp op, Rank ranks);

  [[nodiscard]] DataType type() const { return type_; }
  [[nodiscard]] Rank ranks() const { return static_cast<Rank>(ranks_); }

  struct Draw {
    std::uint32_t shade;
    std::uint32_t rotation;
  };
  [[nodiscard]] Draw draw(std::uint64_t index, std::uint64_t iteration) const;
  /// What `rank` holds for a draw.
  [[nodiscard]] Bits input(Rank rank, Draw draw) const;
  /// What the reduction over all ranks yields for a draw.
  [[nodiscard]] Bits result(Draw draw) const;

 private:
  DataType type_;
  std::uint32_t ranks_;
  std::vector<Bits> inputs_;   // [entry * kShades + shade]
  std::vector<Bits> results_;  // [rotation * kShades + shade]
};

/// What a check of one buffer found. Indices are elements of the receive buffer.
struct Findings {
  std::uint64_t wrong = 0;
  struct First {
    std::size_t index;
    Bits expected;
    Bits got;
  };
  std::optional<First> first;
};

/// Makes and checks the buffers of one shape. Immutable; any thread.
class Data {
 public:
  explicit Data(const Shape& shape);

  [[nodiscard]] const Shape& shape() const { return shape_; }

  /// Fills the send buffer of `rank`: blocks_of(shape, rank).send blocks at `send`.
  void fill(Rank rank, std::uint64_t iteration, std::byte* send) const;
  /// Compares the receive buffer of `rank`: blocks_of(shape, rank).recv blocks at `recv`.
  [[nodiscard]] Findings check(Rank rank, std::uint64_t iteration, const std::byte* recv) const;

 private:
  Shape shape_;
  std::optional<Palette> palette_;  // for reductions
};

/// Bytes around a buffer that nobody may write.
inline constexpr std::size_t kGuardBytes = 64;
void set_guard(std::byte* guard);
/// How many of the kGuardBytes changed.
std::size_t broken_guard_bytes(const std::byte* guard);

}  // namespace tutti::bench
