// Joins the drafts of all ranks: messages become slots and waits, rounds become stages. Used inside
// this folder.
#pragma once

#include <cstdint>
#include <vector>

#include "src/lower/draft.hpp"

namespace tutti::lower {

/// When receives are posted, where there is a choice.
enum class Receives : std::uint8_t { kEarly, kWithTheirSends };

/// A draft for each rank. The result is not checked yet.
Lowered link(const ir::Schedule& schedule, const LowerOptions& options, std::vector<Draft> drafts,
             Receives receives);

}  // namespace tutti::lower
