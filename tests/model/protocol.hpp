// The flag protocol of the device interpreter (src/device/interpret.hpp) as lists of actions: what
// a block of each rank stores, tells and waits for, in several calls one after the other. A block
// counts as one agent, since its barriers put its threads in order.
//
// Values, of words and of data, are call * 16 + detail: of a word the position within the call, of
// data the rank it comes from * 4 + its slice (or half of a packet).
#pragma once

#include <cstdint>
#include <vector>

#include "src/device/program.hpp"
#include "tests/model/explorer.hpp"

namespace tutti::model {

using device::ImageProtocol;
enum class Pattern : std::uint8_t {
  kAll,       ///< everybody reads from everybody
  kFromRoot,  ///< everybody reads from the root (broadcast)
  kToRoot,    ///< the root reads from everybody (reduce)
};

struct Call {
  ImageProtocol protocol = ImageProtocol::kPackets;
  Pattern pattern = Pattern::kAll;
  int root = 0;
  bool stores = false;  ///< kDirect: who has the data stores it to outputs, instead of being read
};

/// What a rank could get wrong.
enum class Mistake : std::uint8_t {
  kNone,
  kPushesUnasked,        ///< packets: does not wait for readers to be done with the half
  kPollsNoFlag,          ///< packets: takes what is there
  kPollsHalfAPacket,     ///< packets: takes the second half with the flag of the first
  kOneInbox,             ///< packets: one half for all calls
  kClearsNoPackets,      ///< packets: flags begin anew over old packets
  kReusesSlotsUnasked,   ///< staged: does not wait for readers of two calls before
  kRefillsUnasked,       ///< staged: does not wait for readers of the slice before in a slot
  kReadsUnasked,         ///< staged: does not wait for data
  kOneHalfOfSlots,       ///< staged: one half for all calls
  kTellsTooEarly,        ///< staged: tells of data before it stores it
  kTellsWithoutRelease,  ///< tells by a plain store
  kTouchesUnasked,       ///< direct: does not wait for owners of buffers to be in the call
  kLeavesUsers,          ///< direct: does not wait for those who touch its buffers
  kTellsOnlyPartners,    ///< enters without telling those who are not part of its call
};

struct Job {
  int ranks = 2;
  std::vector<Call> calls;  ///< at most 14
  int slices = 2;           ///< kStaged: at most 4
  int depth = 1;            ///< kStaged: slices that a half holds
  int halves = 2;           ///< kPackets: stores that a packet takes
  /// Packets and slots lie elsewhere in a half two calls later, as where another program follows.
  bool moves = false;
  unsigned flags = 15;  ///< of packets, before they begin anew; odd
  Mistake mistake = Mistake::kNone;
};

System system_of(const Job& job);

}  // namespace tutti::model
