// Predicts what a run would take from its plan, without a model or other ranks.
#pragma once

#include <string>

#include "tools/train/settings.hpp"
#include "training/plan.hpp"
#include "tutti/error.hpp"

namespace tutti::trainer {

/// Where a step is to be predicted. Value.
struct Where {
  int hosts = 1;          ///< in equal blocks of ranks; divides their number
  std::string link = {};  ///< between hosts, as parse_link() takes it; "": times are not predicted
  double compute = 0;     ///< seconds that a step computes
};

/// As tables, and as JSON. kInvalidArgument: the link.
Result<std::string> prediction_text(const Settings& settings, const training::Plan& plan,
                                    const Where& where = {});
Result<std::string> prediction_json(const Settings& settings, const training::Plan& plan,
                                    const Where& where = {});

}  // namespace tutti::trainer
