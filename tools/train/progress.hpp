// The state of a run that a checkpoint keeps beside the tensors, so that the run can resume
// exactly.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tools/train/average.hpp"
#include "tools/train/model_shape.hpp"
#include "training/loss_scaler.hpp"
#include "tutti/error.hpp"

namespace tutti::trainer {

/// Value, the same on all ranks.
struct Progress {
  std::uint64_t step = 0;     ///< the last one done
  std::uint64_t taken = 0;    ///< of those, how many were not skipped
  std::uint64_t samples = 0;  ///< seen; the next step begins with this one
  std::uint64_t seed = 0;
  std::uint64_t data = 0;      ///< TextData::hash()
  double seconds = 0;          ///< of all steps, by rank 0's clock
  double warmup_progress = 0;  ///< how much of the run was done at the end of the warm-up
  training::LossScaler scaler = {};
  Average average = Average();
  ModelShape shape = {};
};

/// Counters of a checkpoint. Real numbers are kept as their bits.
std::map<std::string, std::uint64_t> counters_of(const Progress& progress);
/// kWrongData names the counter that is missing or makes no sense.
Result<Progress> progress_in(std::uint64_t step,
                             const std::map<std::string, std::uint64_t>& counters);

}  // namespace tutti::trainer
