// Predicts what a run would take from its plan, without a model or other ranks.
#pragma once

#include <string>

#include "tools/train/settings.hpp"
#include "training/plan.hpp"
#include "tutti/error.hpp"

namespace tutti::trainer {

/// As tables, and as JSON.
std::string prediction_text(const Settings& settings, const training::Plan& plan);
std::string prediction_json(const Settings& settings, const training::Plan& plan);

}  // namespace tutti::trainer
