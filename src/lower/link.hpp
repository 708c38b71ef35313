// Joins the drafts of all ranks: messages become slots and waits, rounds become stages. Used inside
// this folder.
#pragma once

#include <vector>

#include "src/lower/draft.hpp"

namespace tutti::lower {

/// A draft for each rank. The result is not checked yet.
Lowered link(const ir::Schedule& schedule, const LowerOptions& options, std::vector<Draft> drafts);

}  // namespace tutti::lower
