// What the model proposes: of the algorithms that can run a call between hosts, the one that is
// predicted to be the fastest.
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
  std::uint64_t bytes = 0;   ///< the longer of a rank's two buffers
  std::uint64_t blocks = 1;  ///< that they hold
};

/// Of one communicator. It remembers what it found; one thread at a time. The same on all ranks
/// that have the same calibration: the model adds and multiplies in one order everywhere.
class Proposals {
 public:
  /// Simulating a call takes longer the more there is to it: above these, the rules know best, and
  /// larger calls are judged as ones of that size, where links decide already.
  static constexpr std::int32_t kMostRanks = 32;
  static constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 20U;

  Proposals(Calibration calibration, std::size_t staging_bytes)
      : calibration_(std::move(calibration)), staging_bytes_(staging_bytes) {}

  /// The fastest of `candidates`, where it is clearly faster than `ruled`; none otherwise. All
  /// sizes of one class (tuning.hpp) have the same answer.
  std::optional<Proposal> faster_than(const ir::Algorithm& ruled, const ProposedCall& call,
                                      std::span<const ir::Algorithm* const> candidates,
                                      const lower::Placement& placement);

 private:
  using Key = std::tuple<Collective, Rank, std::uint8_t, const ir::Algorithm*>;
  [[nodiscard]] std::optional<double> predicted(const ir::Algorithm& algorithm,
                                                const ProposedCall& call,
                                                const lower::Placement& placement) const;
  [[nodiscard]] std::optional<Proposal> find(const ir::Algorithm& ruled, const ProposedCall& call,
                                             std::span<const ir::Algorithm* const> candidates,
                                             const lower::Placement& placement) const;

  Calibration calibration_;
  std::size_t staging_bytes_;
  std::map<Key, std::optional<Proposal>> known_;
};

}  // namespace tutti
