#include "src/exec/announcements.hpp"

#include <array>
#include <cstring>

#include "src/base/result.hpp"

namespace tutti::exec {
namespace {

using Words = std::array<std::uint64_t, sizeof(CallSignature) / sizeof(std::uint64_t)>;

/// Without the padding, which may hold anything.
Words words_of(const CallSignature& call) {
  CallSignature padded;
  std::memset(static_cast<void*>(&padded), 0, sizeof padded);
  padded.collective = call.collective;
  padded.type = call.type;
  padded.op = call.op;
  padded.root = call.root;
  padded.count = call.count;
  padded.blocks = call.blocks;
  padded.compression = call.compression;
  Words words;
  std::memcpy(words.data(), &padded, sizeof padded);
  return words;
}

/// What a peer wrote there as its call `number`, if that is what the place holds. (A lock by
/// sequence numbers without fences: who loads a word of a later call sees that the number has
/// changed. The thread sanitizer knows no fences.)
bool read(const Announced& place, std::uint64_t number, CallSignature& call) {
  if (place.number.load(std::memory_order_seq_cst) != number) return false;
  Words words;
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = place.call[i].load(std::memory_order_acquire);
  if (place.number.load(std::memory_order_relaxed) != number) return false;
  std::memcpy(static_cast<void*>(&call), words.data(), sizeof call);
  return true;
}

void write(Announced& place, std::uint64_t number, const CallSignature& call) {
  place.number.store(0, std::memory_order_relaxed);
  const Words words = words_of(call);
  for (std::size_t i = 0; i < words.size(); ++i)
    place.call[i].store(words[i], std::memory_order_release);
  // Of two ranks that store their numbers and load each other's one sees the other's.
  place.number.store(number, std::memory_order_seq_cst);
}

/// A peer's bytes name what they may not.
bool is_sound(const CallSignature& call) {
  return static_cast<int>(call.collective) < kCollectives &&
         static_cast<int>(call.type) < kDataTypes && static_cast<int>(call.op) < kReduceOps;
}

}  // namespace

Status Announcements::compare(Rank peer, const CallSignature& call) const {
  const Member& member = team_->member(peer);
  if (peer == team_->rank() || member.block == nullptr) return ok_status();
  CallSignature theirs;
  if (!read(member.block->announced[number_ % kAnnounced], number_, theirs) || theirs == call)
    return ok_status();
  return peer_error(
      Code::kInvalidUsage, peer,
      "the ranks made different calls as number {} that this communicator's GPUs run: {} calls {}, "
      "{} calls {}; all ranks must make the same calls in the same order",
      number_, team_->member(team_->rank()).label, describe(call), member.label,
      is_sound(theirs) ? describe(theirs) : "nothing that can be read");
}

Status Announcements::announce(const CallSignature& call) {
  if (stopped_) return ok_status();
  ++number_;
  write(team_->own_block().announced[number_ % kAnnounced], number_, call);
  for (Rank peer = 0; peer < team_->size(); ++peer) TUTTI_TRY(compare(peer, call));
  return ok_status();
}

}  // namespace tutti::exec
