// Proves of a kDirect program that any place that is written is touched by one rank alone: so no
// timing matters. Used inside this folder.
#pragma once

#include "src/lower/program.hpp"
#include "tutti/error.hpp"

namespace tutti::lower {

/// Of well-formed programs; of other protocols it has nothing to say.
Status check_exclusive(const Lowered& lowered);

}  // namespace tutti::lower
