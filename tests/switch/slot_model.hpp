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
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::model {

enum class Network : std::uint8_t { kAnyOrder, kFifo };

/// What the protocol could get wrong.
enum class SlotMistake : std::uint8_t {
  kNone,
  kOneVersion,         ///< a slot has one version, which the next chunk overwrites
  kKeepsBitmap,        ///< a new chunk begins with the workers of the one before
  kAddsCopies,         ///< a repeated contribution is added again
  kDropsCopies,        ///< a repeated contribution to a complete chunk has no answer
  kTakesStale,         ///< a late copy of an old chunk begins that chunk again
  kSendsEarly,         ///< workers do not wait for the result that frees the slot
  kSendsEarlyAllowed,  ///< the same, and the switch does not check it
  kTakesAnyResult,     ///< workers look at the slot of a result, not at its chunk
  kLastExponent,       ///< the switch keeps the last exponent, not the greatest
  kNoNumbers,          ///< SwitchML as published: packets name slot and version, not the chunk
  kLeafAnswersItself,  ///< a leaf takes its own sum for the result
  kLeafSendsOnce,      ///< a leaf does not repeat its sum
};

struct SlotJob {
  unsigned workers = 2;  ///< of each leaf, or of the switch if there are no leaves
  unsigned leaves = 0;   ///< switches below the root
  unsigned slots = 1;
  std::vector<unsigned> calls = {6};  ///< chunks of each call, 20 in all at most
  Network network = Network::kAnyOrder;
  unsigned queue = 2;  ///< kFifo: places of a queue
  SlotMistake mistake = SlotMistake::kNone;
  bool checks_progress = true;  ///< false: only results and refusals are checked
};

struct SlotExploration {
  std::size_t states = 0;
  std::string mistake;             ///< "" where there is none in any state
  std::vector<std::string> steps;  ///< the fewest that lead to it
};

/// Visits all states, or stops at the first mistake.
SlotExploration explore(const SlotJob& job);

}  // namespace tutti::model
