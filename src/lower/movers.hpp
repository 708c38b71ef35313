// Decides who moves each message with ProgramProtocol::kDirect: the receiver reads the sender's
// input, or the sender writes the receiver's output. Used by lower.cpp only.
#pragma once

#include <optional>

#include "src/lower/draft.hpp"

namespace tutti::lower {

/// The messages of `schedule`, each with its mover (Message::stored); nullopt if the schedule does
/// not fit the protocol. Only ways in which each written place belongs to one rank are allowed.
/// Among these it minimises the busiest rank's loads and stores. Ranks in place and out of place
/// get the same result, so they can work together.
std::optional<Messages> settle_movers(const ir::Schedule& schedule, const LowerOptions& options);

}  // namespace tutti::lower
