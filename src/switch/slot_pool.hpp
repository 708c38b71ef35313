// The slots of one session: what a switch keeps of the chunks that are being added.
//
// A pool takes packets that are authentic and of its session, changes one slot, and says what to
// send. It has no clock and no timers, allocates nothing after its creation, and does work
// proportional to the packet. slot_mark.hpp has the rules; here are the values.
//
// A leaf of a tree (more workers than one switch takes) has the session of its own workers and is
// one worker of the session above. Both sessions have equally many slots and the same chunk
// numbers. The sum of its workers goes up as its contribution, and the result comes down to all.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "src/switch/packet.hpp"
#include "src/switch/slot_mark.hpp"

namespace tutti::in_network {

/// Two versions, each with the values of a chunk.
struct Slot {
  std::array<SlotMark, 2> marks;
  std::array<std::array<std::byte, kChunkBytes>, 2> values;
};

enum class PoolRole : std::uint8_t {
  kRoot,
  kLeaf,
};

class SlotPool {
 public:
  /// `slots`, at least one, are the caller's; only this pool uses them. They are marked as empty.
  /// 1 <= workers <= kMostWorkers.
  SlotPool(std::vector<Slot*> slots, unsigned workers, PoolRole role);

  /// What to send, and to whom.
  struct Answer {
    Send send = Send::kNothing;
    std::uint32_t to = 0;  ///< a bit for each worker
    /// Those of them that get the packet without its values. kResult.
    std::uint32_t without_values = 0;
    /// The packet, but for sender, session and counter. Its values belong to the slot, and last
    /// until the next packet is taken.
    Packet packet;
  };

  /// A contribution by packet.sender, which must be a worker below workers().
  Answer contribute(const Packet& packet);
  /// A leaf's: a result, a sign of life or a refusal from the switch above, where the leaf is
  /// worker `own`.
  Answer answer_from_above(const Packet& packet, std::uint8_t own);

  [[nodiscard]] std::uint32_t slots() const { return rules_.slots; }
  [[nodiscard]] unsigned workers() const;
  /// Gives the slots back. The pool takes no packets any more.
  std::vector<Slot*> release() && { return std::move(slots_); }

 private:
  /// The slot and the version of a chunk.
  struct Place {
    SlotMark& mark;
    const SlotMark& other;
    std::array<std::byte, kChunkBytes>& values;
  };
  [[nodiscard]] Place place_of(std::uint64_t chunk) const;
  [[nodiscard]] Answer answer(const Place& place, const Decision& decision,
                              const Packet& packet) const;

  std::vector<Slot*> slots_;
  SlotRules rules_;
};

}  // namespace tutti::in_network
