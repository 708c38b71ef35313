// The settings of a run, from the command line of `tutti train` and the number of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "tools/train/model_shape.hpp"
#include "tools/train/options.hpp"
#include "training/adamw.hpp"
#include "training/learning_rate.hpp"
#include "training/loss_scaler.hpp"
#include "training/plan.hpp"
#include "tutti/error.hpp"

namespace tutti::trainer {

/// Value.
struct Settings {
  ModelShape shape;
  training::PlanOptions plan;
  training::AdamW optimizer;
  training::LearningRate rate;
  training::LossScaler scaler;
  std::optional<double> clip;
  bool recomputes = false;
  std::size_t batch = 0;    ///< samples of a step, of all ranks and passes
  std::uint64_t steps = 0;  ///< 0: as many as `minutes` allow
  double minutes = 0;
  [[nodiscard]] std::size_t tokens() const {
    return batch * static_cast<std::size_t>(shape.context);
  }
};
/// --secondary becomes --hpz. `hosts`: that the ranks are on, in equal blocks; 0: in others. Comes
/// before settings_of().
Status choose_secondary(Options& options, int ranks, int hosts);
/// kInvalidArgument names the option that is wrong, and what would fit.
Result<Settings> settings_of(const Options& options, int ranks);

/// Who keeps what of the model, and what that costs.
Result<training::Plan> plan_of(const Settings& settings, int ranks);

/// --resume: a step, the last one there is, or none. Value.
struct Resume {
  bool wanted = true;
  std::optional<std::uint64_t> step = {};
};
Result<Resume> resume_of(const Options& options);

/// Of so many ranks, as many as can go on with the same options: shards and parts of a batch have
/// to divide among them. 0: none.
int ranks_that_fit(const Options& options, int left);

}  // namespace tutti::trainer
