// The measurements of `tutti tune` for one collective and size, and their evaluation. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/cost/measured_table.hpp"
#include "src/cost/tuning.hpp"
#include "tutti/types.hpp"

namespace tutti::tune {

/// A way of running a call and what it took, round by round: microseconds on the slowest rank.
struct Timed {
  Way way;
  std::vector<double> us;
  [[nodiscard]] double median() const;
  [[nodiscard]] double lower_quartile() const;
};

/// One collective and size. Value.
struct Cell {
  Collective collective = Collective::kAllReduce;
  std::size_t bytes = 0;          ///< as `tutti bench` shows it
  Timed own;                      ///< as the library chooses by itself; of its way, the algorithm
  std::vector<Timed> candidates;  ///< each of one round at least; never empty
};

/// The candidate with the least median; lives as long as the cell.
const Timed& best_of(const Cell& cell);

/// What `Cell` says.
struct Finding {
  Way way;
  double us = 0;
  double next_us = 0;  ///< by the best of the others; 0: there is none
};

/// The way with the least median, unless the library's own algorithm is within 10 % of it by the
/// medians or by the lower quartiles: then that. What runs differ among themselves, as where ranks
/// share CPUs, is no reason to leave it.
Finding fastest_way(const Cell& cell);

/// How much slower the library's own choice is than the fastest way: 0.1 is a tenth.
double regret(const Cell& cell);

/// Regrets of several cells together.
struct Summary {
  double geometric_mean = 0;
  double worst = 0;
  const Cell* worst_cell = nullptr;
};
Summary summary_of(std::span<const Cell> cells);

/// What holds for `arrangement` from now on. `cells`: of one collective, by size. Each size stands
/// for those that are nearer to it than to the next ones, by ratio; the outer ones as far outwards
/// as inwards, a lone one for half and twice as much.
std::vector<MeasuredRange> ranges_of(std::span<const Cell> cells, const Arrangement& arrangement,
                                     std::int64_t measured_s);

}  // namespace tutti::tune
