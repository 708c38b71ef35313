// Every way in which a few agents can act on shared memory: an explicit-state model checker.
//
// An agent is a straight list of actions, done in order. What it stores goes into its store buffer,
// from where it reaches memory at any later moment: data in any order (but for two stores to one
// place), a released store only once everything that its agent stored before it is there. So stores
// behind a released one may overtake it, and those before it may not, as C++ and PTX have it. Loads
// see the agent's own stores at once, and memory otherwise. A wait or poll that has succeeded has
// acquired: nothing is done before what stands before it in the list.
//
// All states are visited breadth first, so that the first mistake found is one of those with the
// fewest steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::model {

using Place = std::uint8_t;  ///< a word or a piece of data in memory
using Value = std::uint8_t;  ///< 0 at first

struct Action {
  enum class Kind : std::uint8_t {
    kStore,    ///< data
    kRelease,  ///< a store after all that this agent stored before
    kWait,     ///< until the place has at least this value; places that are waited for only grow
    kLoad,     ///< finds this value, or the protocol is wrong
    kPoll,     ///< until the value there has the same flag; is this value, or the protocol is wrong
  };
  Kind kind = Kind::kStore;
  Place place = 0;
  Value value = 0;
};

struct System {
  std::vector<std::vector<Action>> agents;  ///< at most 255 actions each
  std::vector<std::string> places;          ///< names
  unsigned flags = 15;                      ///< how many flags of kPoll there are: see flag_of()
};

/// The flag that a value carries: its upper half, modulo `flags`; 0 of 0.
constexpr unsigned flag_of(Value value, unsigned flags) {
  return value == 0 ? 0 : 1 + (value >> 4) % flags;
}

struct Exploration {
  std::uint64_t states = 0;
  std::string mistake;             ///< "" where there is none in any state
  std::vector<std::string> steps;  ///< that lead to it
};

enum class Reduction : bool {
  kNone,
  /// Some steps are taken at once, whatever else could be done first, since neither they nor what
  /// others do before them make a difference to each other (a partial-order reduction with ample
  /// sets of one): an agent filling its own buffer; a wait that is over, as such places only grow;
  /// and a released store that has nothing before it, for which others can only wait. The same
  /// mistakes are found, but not by the fewest steps.
  kPartialOrder,
};

/// Visits all states, or stops at the first mistake: a wrong value, or a state that is not the end
/// and that nothing leads out of.
Exploration explore(const System& system, Reduction reduction);

}  // namespace tutti::model
