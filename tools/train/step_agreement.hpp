// What ranks tell each other after each step, apart from gradients and parameters.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "tutti/communicator.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::trainer {

/// What a rank has to say. Value.
struct StepNews {
  double loss = 0;     ///< nats, summed over this rank's bytes
  bool stops = false;  ///< somebody asked this process to end
  double seconds = 0;  ///< of training so far, by its clock
  double owed = 0;     ///< norm of what this rank owes
};

/// What all know then. Value, the same on all ranks.
struct StepAgreement {
  double loss = 0;                ///< nats, summed over all ranks
  bool stops = false;             ///< somebody asked one of them to end
  double seconds = 0;             ///< by rank 0's clock
  double owed = 0;                ///< norm of what all ranks owe
  Rank first_bad_loss = kNoRank;  ///< whose own loss is infinite or no number
};

/// Collective.
Result<StepAgreement> agree_on_step(Comm& comm, const StepNews& mine);

/// Sums over all ranks, of doubles. Collective.
Status add_up(Comm& comm, std::span<double> values);
/// Rank 0's numbers become everybody's. Collective.
Status from_rank_0(Comm& comm, std::span<std::uint64_t> values);

/// Seconds that a byte sent takes where ranks do nothing but send: of an all-reduce of some MB.
/// nullopt for one rank. Collective.
Result<std::optional<double>> seconds_per_byte(Comm& comm);

}  // namespace tutti::trainer
