// What a switch decides about each contribution. Pure bookkeeping, without values: SlotPool adds
// the values, and tests/switch/model_test.cpp explores every order of events with these functions.
//
// A session has S slots. Chunk k is added in slot k % S, in the slot's version (k / S) % 2. The
// rule of workers: send chunk k only after the result of chunk k - S. Therefore
//   - when a contribution to k arrives, the other version of its slot holds k - S, complete;
//   - when k is complete, all workers had the result of k - S, so nobody needs k - S any more, and
//     that version may be used again, for k + S. Two versions are enough;
//   - a repeated contribution to a complete chunk comes from a worker that lost the result, or was
//     delayed. The answer is the result, to that worker alone.
// A version is not cleared: the first contribution to a greater chunk overwrites it. Contributions
// to a smaller chunk are late copies and dropped.
//
// In a tree, a leaf switch adds for its workers and is itself a worker of the switch above. It has
// no timers: a worker that repeats its contribution makes the leaf repeat the sum. A leaf that
// refuses a chunk tells its own workers; the other leaves see that this one is missing.
#pragma once

#include <cstdint>

#include "src/switch/packet.hpp"

namespace tutti::in_network {

/// What is fixed for a session.
struct SlotRules {
  std::uint32_t slots = 1;
  std::uint32_t all = 1;  ///< a bit for each worker
  bool is_leaf = false;   ///< sums go to the switch above, which sends the result
};

enum class Stage : std::uint8_t {
  kOpen,      ///< workers are missing
  kSummed,    ///< a leaf's: all of its workers are in, the result is not
  kComplete,  ///< holds the result
  kRefused,   ///< will have no result, see `refusal`
};

inline constexpr std::uint64_t kNoChunk = ~std::uint64_t{0};

/// One version of a slot.
struct SlotMark {
  std::uint64_t chunk = kNoChunk;
  std::uint32_t call = 0;
  std::uint32_t arrived = 0;  ///< workers that took part
  std::uint32_t wanting = 0;  ///< those of them that want the result's values
  std::uint32_t last = 0;     ///< who made the version complete, or made up a leaf's sum
  std::uint32_t asked = 0;    ///< kSummed: who repeated its contribution since the sum went up
  std::uint32_t owed = 0;     ///< kSummed: who did so since the switch above gave a sign of life
  std::int16_t exponent = 0;  ///< greatest so far
  std::uint16_t count = 0;
  Lanes lanes = Lanes::kInt32Sum;
  Stage stage = Stage::kOpen;
  Refusal refusal = Refusal::kNone;
  bool has_values = false;  ///< somebody sent values

  friend bool operator==(const SlotMark&, const SlotMark&) = default;
};

/// What happens to the version's values.
enum class Fill : std::uint8_t {
  kKeep,
  kStore,  ///< the packet's values replace them
  kAdd,    ///< the packet's values are combined with them
};

/// What is sent.
enum class Send : std::uint8_t {
  kNothing,
  kResult,   ///< to the workers in `to`; with values to those in SlotMark::wanting
  kWaiting,  ///< to the workers in `to`: who is missing
  kSum,      ///< to the switch above, as this leaf's contribution
  kRefusal,  ///< to the workers in `to`
};

struct Decision {
  Fill fill = Fill::kKeep;
  Send send = Send::kNothing;
  std::uint32_t to = 0;
  Refusal refusal = Refusal::kNone;
  /// kResult: the worker whose contribution was the last of all; 0 if it is not one of this switch,
  /// or if the result is sent again.
  std::uint32_t answers = 0;
};

/// The slot and the version of a chunk.
constexpr std::uint64_t slot_of(std::uint64_t chunk, std::uint32_t slots) { return chunk % slots; }
constexpr unsigned version_of(std::uint64_t chunk, std::uint32_t slots) {
  return static_cast<unsigned>(chunk / slots % 2);
}

/// A worker's contribution. `mark` is the version of its chunk, `other` the slot's other version.
/// The sender is one of the workers in `rules.all`.
Decision contribute(SlotMark& mark, const SlotMark& other, const Packet& packet,
                    const SlotRules& rules);

/// A leaf's: what the switch above answers. `mark` is the version of the packet's chunk.
/// `was_last`: the packet says that this leaf's contribution was the last.
Decision answer_from_above(SlotMark& mark, const Packet& packet, bool was_last,
                           const SlotRules& rules);

}  // namespace tutti::in_network
