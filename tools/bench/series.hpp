// Measures one row: checked iterations, warm-up, then rounds of timed batches.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tools/bench/crew.hpp"
#include "tools/bench/data.hpp"
#include "tools/bench/lossy.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/report.hpp"

namespace tutti::bench {

/// The send and receive buffer of each rank of a crew.
/// A buffer of a rank: where data is made and checked, and, on GPUs, the memory that calls get.
struct RankBuffer {
  Buffer host;
  std::optional<cuda::DeviceMemory> gpu;

  /// Of `at`, a place of the host's buffer, what calls get.
  [[nodiscard]] std::byte* for_calls(std::byte* at) const {
    if (!gpu) return at;
    return static_cast<std::byte*>(gpu->data()) + (at - host.whole().data());
  }
};

struct CrewBuffers {
  std::vector<RankBuffer> send;
  std::vector<RankBuffer> recv;
};

/// Room for `bytes` of data and Options::misalign, registered when asked for.
Result<CrewBuffers> allocate_buffers(Crew& crew, const Options& options, std::size_t bytes);

/// One row on one crew; all crews of the job run the same series at the same time.
///
/// A *batch* is at least 20 us of back-to-back iterations between two readings of the clock; a
/// *round* is a run of batches, after which the ranks exchange their readings and so decide alike
/// whether to go on. New data is made before the first round and those after which the results are
/// checked (the 1st, 2nd, 4th, 8th ...); out of place the results of the last timed iteration are
/// checked, in place, where an iteration spoils its own input, one more.
class Series {
 public:
  /// All outlive the series. `iteration` numbers the data; it is the same on all crews.
  Series(Crew& crew, const Options& options, const Shape& shape, const CrewBuffers& buffers,
         std::uint64_t& iteration);

  /// nullopt where the collective has no such form.
  Result<std::optional<Timing>> measure(bool in_place);

  /// Elements found wrong on this crew's own ranks: does not depend on a working library.
  [[nodiscard]] std::uint64_t wrong_here() const { return wrong_here_; }

 private:
  /// Readings of all batches so far, in us per operation, on the slowest rank.
  struct Readings {
    std::vector<double> batches;
    double total_us = 0;  ///< of this crew
    double slowest_total_us = 0;
    std::uint64_t iterations = 0;
  };
  struct Round {
    std::uint64_t batches = 1;
    std::uint64_t iterations_per_batch = 1;
  };

  bool place(bool in_place);
  Status fill();
  Status upload(std::size_t i) const;
  Status download(std::size_t i) const;
  Status iterate(std::uint64_t times);
  Result<std::uint64_t> check();
  Status add_unequal(double& wrong);
  Result<Timing::Loss> loss();
  Result<std::uint64_t> checked_iteration();
  Result<double> estimate_us();
  Status run_round(const Round& round, Readings& readings);
  [[nodiscard]] bool enough(const Readings& readings) const;
  [[nodiscard]] Round next_round(const Readings& readings, std::uint64_t per_batch,
                                 double estimate_us) const;
  Result<std::uint64_t> timed_rounds(Readings& readings);
  Status report_first_wrong(std::span<const Findings> findings);

  Crew& crew_;
  const Options& options_;
  Data data_;
  std::optional<LossyData> lossy_;  ///< in place of data_, where calls are compressed
  Losses losses_;                   ///< of the form being measured, of this crew
  const CrewBuffers& buffers_;
  std::uint64_t& iteration_;
  std::uint64_t wrong_here_ = 0;

  /// Of the form being measured, for each rank of the crew.
  struct Placement {
    std::byte* send;
    std::size_t send_bytes;
    std::byte* recv;
    std::byte* guarded;  ///< where guards lie around
    std::size_t guarded_bytes;
  };
  bool in_place_ = false;
  bool reported_ = false;  ///< wrong elements of this form; the same on all crews
  std::vector<Placement> placements_;
  std::vector<Pointers> pointers_;
};

}  // namespace tutti::bench
