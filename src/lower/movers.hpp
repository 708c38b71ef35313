// Who moves what with Protocol::kDirect: a message is loaded from its sender's input by the
// receiver, or stored to its receiver's output by the sender. Used by lower.cpp alone.
#pragma once

#include <optional>

#include "src/lower/draft.hpp"

namespace tutti::lower {

/// The messages of `schedule`, each with its mover (Message::stored); nothing where the schedule
/// does not fit the protocol. Of the ways that leave every place that is written to one rank, it is
/// the one in which the busiest rank loads and stores least. Whether ranks are in place makes no
/// difference, so that both kinds understand each other.
std::optional<Messages> settle_movers(const ir::Schedule& schedule, const LowerOptions& options);

}  // namespace tutti::lower
