// The protocol between workers and a switch that adds for them, explored: every order in which
// packets can arrive, any number of times or never, and every moment at which workers can send.
//
// What decides is the code of src/switch itself: contribute() and answer_from_above() for switches,
// Window for workers. Values are small numbers, such that every wrong mix has another sum.
//
// Network::kAnyOrder keeps each packet for ever, and may deliver it at any time, as often as it
// likes, or never. So it does all that a network can do that loses, repeats, delays and reorders,
// without bounds. Sending again what was sent changes nothing there. Network::kFifo has a queue of
// a few packets each way between a worker and the switch. It loses or repeats what is first in a
// queue, but never reorders.
//
// A state is right if nobody accepts a wrong result, nobody is refused, and the end can still be
// reached if all packets under way are lost.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/switch/slot_system.hpp"

namespace tutti::model {

struct SlotExploration {
  std::size_t states = 0;
  std::string mistake;             ///< "" where there is none in any state
  std::vector<std::string> steps;  ///< the fewest that lead to it
};

/// Visits all states, or stops at the first mistake.
SlotExploration explore(const SlotJob& job);

}  // namespace tutti::model
