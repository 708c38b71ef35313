// Measures one collective and size. All ways of running it take turns, in rounds, so that a
// temporary disturbance of the machine affects all of them.
//
// A *batch* is a few calls in a row that are timed together. Before each batch the ranks meet and
// run untimed calls, because another way ran last. Ways that are far behind are dropped: chance
// makes a batch slower, hardly ever faster.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tools/bench/crew.hpp"
#include "tools/bench/series.hpp"
#include "tools/bench/shape.hpp"
#include "tools/tune/cell.hpp"
#include "tutti/error.hpp"

namespace tutti::tune {

struct MeterOptions {
  double seconds_per_cell = 0.5;
  /// What the library chooses by itself may be on trial in the first calls of a size: they are made
  /// before anything is timed.
  bool settles_first = false;
  /// Of all that `tutti algo list` names these alone; empty: all.
  std::vector<std::string> algorithms;
};

/// One per rank; every call is collective over the job.
class Meter {
 public:
  /// All outlive the meter. The buffers hold what the largest shape needs.
  Meter(bench::Crew& crew, const bench::CrewBuffers& buffers, const MeterOptions& options,
        std::vector<int> host)
      : crew_(crew), buffers_(buffers), options_(options), host_(std::move(host)) {}

  /// Shapes of one collective come by ascending size: a way that is hopeless at a large size is not
  /// measured at larger ones. The same on all ranks.
  Result<Cell> measure(const bench::Shape& shape);

 private:
  struct Contender {
    Timed timed;
    bool own = false;         ///< as the library chooses by itself
    double least_us = 0;      ///< of its first batches
    std::uint64_t calls = 1;  ///< in a batch
    bool measured = true;     ///< further
  };

  Result<std::vector<Contender>> contenders(const bench::Shape& shape);
  Status take_over(const bench::Shape& shape, const Contender& contender);
  Status run(const bench::Shape& shape, std::uint64_t calls);
  Result<double> batch_us(const bench::Shape& shape, std::uint64_t calls);
  Status estimate(const bench::Shape& shape, Contender& contender);
  Status round(const bench::Shape& shape, std::vector<Contender>& contenders, std::size_t number);
  Status rounds(const bench::Shape& shape, std::vector<Contender>& contenders, double seconds);
  static Cell cell_of(const bench::Shape& shape, const std::vector<Contender>& contenders);
  void note_hopeless(const bench::Shape& shape, const std::vector<Contender>& contenders);

  bench::Crew& crew_;
  const bench::CrewBuffers& buffers_;
  const MeterOptions& options_;
  const std::vector<int> host_;
  std::set<std::pair<Collective, std::string>> hopeless_;  ///< by describe(Way)
};

}  // namespace tutti::tune
