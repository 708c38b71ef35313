// The tuner of a new communicator.
#pragma once

#include "src/comm/assemble.hpp"
#include "src/comm/runtime.hpp"
#include "src/cost/tuner.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// By what the ranks agreed on. `is_part`: of a communicator that was made before. An error where
/// TUTTI_ALGO names what these ranks cannot run. A part may be too small for an algorithm that
/// TUTTI_ALGO means for the whole; then the log says so, and the library chooses.
Result<Tuner> tuner_for(const Runtime& runtime, const Assembly& assembly, bool is_part);

}  // namespace tutti
