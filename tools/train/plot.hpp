// Draws a run: loss, throughput, and how the time of steps is spent.
#pragma once

#include <string>

#include "tools/train/step_log.hpp"
#include "tutti/error.hpp"

namespace tutti::trainer {

/// As SVG. kWrongData: the log has no two steps with a loss.
Result<std::string> plot_svg(const StepLog& log, const std::string& title);

}  // namespace tutti::trainer
