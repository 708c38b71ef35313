// The model's proposals: algorithms for a call between hosts that are predicted to be clearly
// faster than the rules' choice.
//
// Links differ between clusters by a factor of a hundred and more. So do the sizes from which one
// algorithm beats another. Rules of thumb cannot know them, but a calibration does. Within one host
// the model knows too little about caches and the scheduler, so it is not asked.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "src/cost/calibration.hpp"
#include "src/ir/algorithm.hpp"
#include "src/lower/program.hpp"

namespace tutti {

struct Proposal {
  const ir::Algorithm* algorithm = nullptr;
  double us = 0;        ///< its predicted time
  double ruled_us = 0;  ///< predicted time of the rules' choice
};

/// A call that is about to run.
struct ProposedCall {
  ir::Request request;
  std::uint64_t block_bytes = 0;
  std::uint64_t largest_input = 0;  ///< largest input of any rank, in bytes
  std::uint64_t blocks = 1;         ///< number of blocks in the larger of a rank's two buffers
};

/// For one communicator. Remembers its results; one thread at a time. Ranks with the same
/// calibration get the same results, because the model computes in the same order everywhere.
class Proposals {
 public:
  /// An algorithm is proposed if its predicted time is less than this share of the rules' choice.
  /// Predictions are not exact enough for smaller gains.
  static constexpr double kClearly = 0.9;
  static constexpr std::int32_t kMostRanks = 32;  ///< with more ranks nothing is proposed
  /// Larger buffers are not simulated. Their time is extrapolated from this size and half of it.
  static constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20U;
  /// Most steps times slices in a simulation, which then takes some tenths of a second. Algorithms
  /// that need more are no candidates.
  static constexpr std::uint64_t kMostTasks = std::uint64_t{1} << 18U;

  Proposals(Calibration calibration, std::size_t staging_bytes)
      : calibration_(std::move(calibration)), staging_bytes_(staging_bytes) {}

  /// The `candidates` that are clearly faster than `ruled`, fastest first. All largest inputs of
  /// one class (tuning.hpp) get the same answer. The reference stays valid.
  const std::vector<Proposal>& faster_than(const ir::Algorithm& ruled, const ProposedCall& call,
                                           std::span<const ir::Algorithm* const> candidates,
                                           const lower::Placement& placement);

 private:
  using Key = std::tuple<Collective, Rank, std::uint8_t, const ir::Algorithm*>;
  [[nodiscard]] std::optional<double> simulated(const ir::Schedule& schedule, double block,
                                                const lower::Placement& placement) const;
  [[nodiscard]] std::optional<double> predicted(const ir::Algorithm& algorithm,
                                                const ProposedCall& call,
                                                const lower::Placement& placement) const;
  [[nodiscard]] std::vector<Proposal> find(const ir::Algorithm& ruled, const ProposedCall& call,
                                           std::span<const ir::Algorithm* const> candidates,
                                           const lower::Placement& placement) const;

  Calibration calibration_;
  std::size_t staging_bytes_;
  std::map<Key, std::vector<Proposal>> known_;
};

}  // namespace tutti
