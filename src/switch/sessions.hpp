// The jobs that share a switch. Each opens a session, which has slots of its own until it closes.
//
// Memory is allocated once: SwitchLimits::slots slots of 3 KB. A session asks for as many slots as
// it would like, and gets at most half of what is not set aside; at least SwitchLimits::least_slots
// are set aside for each session that may still come. So the first job on an idle switch gets half
// of it, no job gets all, and one that comes late still gets the least. Slots are not taken away
// from a running session, since its chunks are bound to them.
//
// No clock, no randomness: times, ids and keys are the caller's. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "src/base/clock.hpp"
#include "src/switch/seal.hpp"
#include "src/switch/slot_pool.hpp"
#include "tutti/error.hpp"

namespace tutti::in_network {

struct SwitchLimits {
  std::uint32_t slots = 4096;      ///< of all sessions; 12 MB
  std::uint32_t sessions = 64;     ///< at a time
  std::uint32_t least_slots = 16;  ///< of a session; promised if slots >= sessions * least_slots
};

/// A leaf's place in the session of the switch above.
struct Above {
  std::uint64_t session = 0;
  PacketKey key{};
  std::uint8_t worker = 0;  ///< the leaf's number there
};

struct SessionRequest {
  std::uint64_t id = 0;  ///< random, so that nobody can guess it and none comes twice
  PacketKey key{};       ///< random
  unsigned workers = 1;  ///< 1 .. kMostWorkers
  /// As many as hold what is under way: bandwidth times round trip, over 1408 bytes. A leaf must
  /// have as many as the session above. So ask for at most would_grant() there first, and give both
  /// up if this grants fewer.
  std::uint32_t slots = 1;
  std::optional<Above> above = std::nullopt;  ///< of a leaf
};

class Session {
 public:
  Session(const SessionRequest& request, std::vector<Slot*> slots, TimePoint now);

  [[nodiscard]] std::uint64_t id() const { return id_; }
  [[nodiscard]] const std::optional<Above>& above() const { return above_; }
  [[nodiscard]] SlotPool& pool() { return pool_; }
  [[nodiscard]] TimePoint heard_at() const { return heard_at_; }
  /// Packets that it has accepted.
  [[nodiscard]] std::uint64_t taken() const { return taken_; }
  /// The job is known to live, for example by its connection to the control plane.
  void keep_alive(TimePoint now) { heard_at_ = now; }

  /// Whether a parsed packet was sealed by a worker of this session, or by the switch above, and is
  /// no copy. Notes that the session lives.
  bool accepts(const Packet& packet, std::span<const std::byte> bytes, TimePoint now);

  /// Seals what goes to the workers, and what goes to the switch above.
  std::span<const std::byte> seal(Packet packet, PacketBytes& out);
  std::span<const std::byte> seal_for_above(Packet packet, PacketBytes& out);

 private:
  std::uint64_t id_;
  std::optional<Above> above_;
  SlotPool pool_;
  Sealer sealer_;
  Sealer sealer_for_above_;
  std::vector<Unsealer> unsealers_;  ///< of each worker
  Unsealer unsealer_of_above_;
  TimePoint heard_at_;
  std::uint64_t taken_ = 0;
};

class Sessions {
 public:
  explicit Sessions(const SwitchLimits& limits);

  /// Opens a session and returns it, with at least one slot and at most the ones asked for.
  /// kInvalidArgument: the request is wrong. kUnavailable: no session is left.
  Result<Session*> open(const SessionRequest& request, TimePoint now);
  /// How many slots open() would give now; fails where it would.
  [[nodiscard]] Result<std::uint32_t> would_grant(const SessionRequest& request) const;
  /// False if there is none with this id.
  bool close(std::uint64_t id);
  /// Closes sessions of which no authentic packet came for `limit`, and that nobody kept alive:
  /// jobs that ended without a word. Returns how many.
  std::size_t close_idle(TimePoint now, Nanos limit);

  /// Null if there is none.
  [[nodiscard]] Session* find(std::uint64_t id);
  /// The leaf's session whose session above has this id.
  [[nodiscard]] Session* find_below(std::uint64_t id_above);

  [[nodiscard]] std::size_t size() const { return sessions_.size(); }
  [[nodiscard]] std::uint32_t free_slots() const {
    return static_cast<std::uint32_t>(free_.size());
  }

 private:
  [[nodiscard]] Status check(const SessionRequest& request) const;
  [[nodiscard]] std::uint32_t grant(std::uint32_t wanted) const;
  /// What a session with so many slots lacks to the least. It stays set aside, for the session that
  /// may follow it.
  [[nodiscard]] std::uint32_t lacking(std::uint32_t slots) const {
    return slots < limits_.least_slots ? limits_.least_slots - slots : 0;
  }

  SwitchLimits limits_;
  std::vector<Slot> slots_;
  std::vector<Slot*> free_;
  std::size_t lacking_ = 0;  ///< of all sessions
  std::unordered_map<std::uint64_t, std::unique_ptr<Session>> sessions_;
  std::unordered_map<std::uint64_t, std::uint64_t> below_;  ///< ids, by the id of the session above
};

}  // namespace tutti::in_network
