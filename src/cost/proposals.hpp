// What the model proposes: of the algorithms that can run a call between hosts, those that are
// predicted to be clearly faster than what the rules would choose.
//
// Links differ from one cluster to the next by a factor of a hundred and more, and with them the
// sizes from which one algorithm beats another: rules of thumb cannot know them, a calibration
// does. On one host the model knows too little of caches and of the scheduler to be asked.
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
  double us = 0;        ///< predicted for it
  double ruled_us = 0;  ///< for what the rules would choose
};

/// A call that somebody is to run.
struct ProposedCall {
  ir::Request request;
  std::uint64_t block_bytes = 0;
  std::uint64_t largest_input = 0;  ///< of any rank, in bytes
  std::uint64_t blocks = 1;         ///< of the longer of a rank's two buffers
};

/// Of one communicator. It remembers what it found; one thread at a time. The same on all ranks
/// that have the same calibration: the model adds and multiplies in one order everywhere.
class Proposals {
 public:
  /// Share of the time of the rules' choice below which another is proposed: a prediction is not
  /// so exact that less would count.
  static constexpr double kClearly = 0.9;
  static constexpr std::int32_t kMostRanks = 32;  ///< above, nothing is proposed
  /// Longer buffers are not simulated: what they take is extrapolated from this and half of it.
  static constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20U;
  /// Steps times slices of a simulation, which takes some tenths of a second; what has more is no
  /// candidate.
  static constexpr std::uint64_t kMostTasks = std::uint64_t{1} << 18U;

  Proposals(Calibration calibration, std::size_t staging_bytes)
      : calibration_(std::move(calibration)), staging_bytes_(staging_bytes) {}

  /// Those of `candidates` that are clearly faster than `ruled`, the fastest first. All largest
  /// inputs of one class (tuning.hpp) have the same answer. It stays valid.
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
