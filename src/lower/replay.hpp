// The replay of a lowered program across ranks, with vector clocks: the main part of check.hpp,
// which says what it proves. Used inside this folder.
#pragma once

#include <cstdint>

#include "src/lower/check.hpp"
#include "src/lower/program.hpp"
#include "tutti/error.hpp"

namespace tutti::lower {

/// Of a well-formed program that keeps pace, in so many slices.
Status replay(const Lowered& lowered, const Placement& placement, const CheckOptions& options,
              std::uint32_t slices);

}  // namespace tutti::lower
