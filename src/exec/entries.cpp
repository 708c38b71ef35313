#include "src/exec/entries.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "src/base/fetch_to_write.hpp"
#include "src/base/hash.hpp"
#include "src/exec/caption.hpp"

namespace tutti::exec {

using lower::ProgramMemory;
using lower::ProgramProtocol;

namespace {

constexpr std::uint64_t kAllCalls = ~std::uint64_t{0};

/// Entries whose lines are taken back from their readers this many calls before they are refilled.
constexpr std::uint64_t kFetchAhead = 4;

/// Up to so many operands of a pass, what their owners publish next is fetched ahead. Ranks that
/// read from many peers are in step, as a rule, so that the line would come twice.
constexpr std::size_t kFewPlaces = 4;

/// A peer's copy, taken once; enumerators are clamped so that describe() can print garbage safely.
CallSignature read_call(const CallSignature& shared) {
  CallSignature call = shared;
  if (static_cast<int>(call.collective) >= kCollectives) call.collective = Collective::kSend;
  if (static_cast<int>(call.type) >= kDataTypes) call.type = DataType::kInt8;
  if (static_cast<int>(call.op) >= kReduceOps) call.op = ReduceOp::kSum;
  return call;
}

}  // namespace

std::uint64_t hash_of(const CallSignature& call) {
  const std::uint64_t kinds =
      static_cast<std::uint64_t>(call.collective) | static_cast<std::uint64_t>(call.type) << 8 |
      static_cast<std::uint64_t>(call.op) << 16 |
      static_cast<std::uint64_t>(static_cast<std::uint32_t>(call.root)) << 32;
  return mix(kinds + kGolden) ^ mix(call.count) ^
         (call.blocks | std::uint64_t{call.compression} << 32);
}

Entries::Entries(Team& team, const Launch& launch)
    : team_(team), launch_(launch), entered_(team.size(), 0) {
  for (Rank rank = 0; rank < team.size(); ++rank)
    if (rank == team.rank() || team.member(rank).block == nullptr) entered_[rank] = kAllCalls;
}

// --- this rank's entry ---

bool Entries::may_enter() {
  if (sequence_ > kEntries && !is_unread(sequence_ - kEntries, kEntries / 4)) return false;
  return !launch_.plan().fills_packet() || has_room_for_packet();
}

Status Entries::make_packets() {
  TUTTI_ASSIGN(packet_memory_, team_.allocate_shared(team_.packet_ring_bytes()));
  map_pages({packet_memory_, team_.packet_ring_bytes()});
  packets_.emplace(team_.packet_ring_bytes());
  return ok_status();
}

bool Entries::has_room_for_packet() {
  // What lies there may be older than kEntries calls. Then its entry has been refilled since, and
  // it is unread.
  const std::size_t bytes = launch_.plan().input_bytes(team_.rank());
  const std::uint64_t filled = packets_->in_the_way(bytes);
  if (filled == 0 || filled + kEntries <= sequence_) return true;
  return is_unread(filled, (sequence_ - filled) / 4);
}

void Entries::enter(std::uint64_t readers) {
  RankBlock& block = team_.own_block();
  const std::uint64_t index = sequence_ % kEntries;
  const CollectiveArgs& args = launch_.args();
  Entry& entry = block.entries[index];
  readers_[index] = readers;
  if (std::exchange(hashes_[index], args.call_hash) != args.call_hash) {
    entry.call = *args.call;
    entry.call_hash = args.call_hash;
  }
  if (!args.caption.empty()) [[unlikely]]
    write_caption(block.captions[index], args.caption);
  if (launch_.protocol() == ProgramProtocol::kPublished) publish_input();
  entry.sequence.store(sequence_, std::memory_order_release);
  wake_sleepers(entry.sequence, block.progress.sleepers);
  fetch_to_write(&block.entries[(sequence_ + kFetchAhead) % kEntries]);
}

std::vector<CallSignature> Entries::recent(std::size_t most) const {
  std::vector<CallSignature> calls;
  const std::uint64_t count = std::min<std::uint64_t>({most, sequence_, kEntries});
  const RankBlock& block = team_.own_block();
  for (std::uint64_t call = sequence_ - count + 1; call <= sequence_; ++call) {
    const Entry& entry = block.entries[call % kEntries];
    const bool entered = entry.sequence.load(std::memory_order_relaxed) == call;
    calls.push_back(entered ? entry.call : *launch_.args().call);
  }
  return calls;
}

std::byte* Entries::place_for_input(Holder holder, std::size_t bytes) {
  if (holder != Holder::kPacket) return published_at_.in(team_.own_block(), holder);
  std::byte* const packet = packet_memory_ + packets_->take(sequence_, bytes);
  const PacketPlace place{team_.offset_of(packet)};
  std::memcpy(own().payload, &place, sizeof place);
  return packet;
}

void Entries::publish_input() {
  const Plan& plan = launch_.plan();
  const CollectiveArgs& args = launch_.args();
  const std::size_t bytes = plan.input_bytes(team_.rank());
  if (bytes == 0) return;
  const Holder holder = holder_of(bytes);
  std::byte* const published = place_for_input(holder, bytes);
  for (const ChunkPlaces::Stretch& stretch : plan.chunk_places().input_stretches()) {
    const std::byte* const from = args.input + stretch.from * plan.element_bytes();
    const Destination to{published + stretch.to * plan.element_bytes(),
                         launch_.stores_to(ProgramMemory::kPublished, bytes)};
    const std::size_t part = stretch.size * plan.element_bytes();
    if (launch_.scales_input()) {
      reduce(args.reduction, {&from, 1}, 1, {&to, 1}, stretch.size);
    } else if (part <= kInlineBytes) {
      std::memcpy(to.data, from, part);
    } else {
      copy_bytes(from, {&to, 1}, part);
    }
  }
}

/// Whether nobody reads any more what this rank published in `call`, one of the last kEntries.
/// Where that is not known yet it waits for `stride` more calls than it must, so that one look at a
/// peer serves for many, and a rank that is far ahead does not watch over each step of the others.
/// That must be a call before this one, since a peer may need this rank to get further.
bool Entries::is_unread(std::uint64_t call, std::uint64_t stride) {
  if (entered_by_all_ > call) return true;
  const std::uint64_t readers = readers_[call % kEntries];
  for (Rank peer = 0; peer < team_.size() && readers != 0; ++peer)
    if (is_behind(peer, readers, call + 1)) return have_entered(readers, call + 1 + stride);
  entered_by_all_ = *std::ranges::min_element(entered_);
  return true;
}

/// Whether `peer` is a mapped one among `ranks` that is not known to have entered call `sequence`.
bool Entries::is_behind(Rank peer, std::uint64_t ranks, std::uint64_t sequence) const {
  return entered_[peer] < sequence && (ranks >> (peer % 64) & 1) != 0;
}

/// Whether every mapped peer among `ranks` has entered call `sequence` (and so left the one
/// before).
bool Entries::have_entered(std::uint64_t ranks, std::uint64_t sequence) {
  for (Rank peer = 0; peer < team_.size(); ++peer) {
    if (!is_behind(peer, ranks, sequence)) continue;
    RankBlock* block = team_.member(peer).block;
    const auto& word = block->entries[sequence % kEntries].sequence;
    const std::uint64_t seen = word.load(std::memory_order_acquire);
    if (seen < sequence) {
      team_.waits().blocked_on(peer, {&word, seen, &block->progress.sleepers});
      return false;
    }
    entered_[peer] = sequence;
  }
  return true;
}

// --- the entries of peers ---

Result<bool> Entries::has_entered(Rank peer) {
  if (entered_[peer] >= sequence_) return true;
  const Member& member = team_.member(peer);
  const Entry& entry = member.block->entries[sequence_ % kEntries];
  const std::uint64_t seen = entry.sequence.load(std::memory_order_acquire);
  if (seen < sequence_) {
    team_.waits().blocked_on(peer, {&entry.sequence, seen, &member.block->progress.sleepers});
    return false;
  }
  if (seen > sequence_)
    return peer_error(
        Code::kInvalidUsage, peer,
        "{} is in call {} and did not wait for {} in call {}: all ranks must make the "
        "same calls in the same order",
        member.label, seen, team_.member(team_.rank()).label, sequence_);
  if (entry.call_hash != launch_.args().call_hash) return mismatch(peer, read_call(entry.call));
  entered_[peer] = sequence_;
  fetch_next(peer);
  return true;
}

/// Short, because a rank that reads from many peers does this for each: the fewer instructions lie
/// between two loads, the more of the peers' lines are on the way at once.
std::size_t Entries::skip_entered(std::span<const Place> places, std::size_t place) {
  const std::uint64_t call = sequence_, hash = launch_.args().call_hash;
  const std::size_t index = call % kEntries;
  const bool fetches_next = places.size() <= kFewPlaces;
  std::uint64_t* const entered = entered_.data();
  for (; place < places.size(); ++place) {
    const Rank owner = places[place].owner;
    if (!lower::is_peers_buffer(places[place].memory) || entered[owner] >= call) continue;
    const Entry& entry = team_.member(owner).block->entries[index];
    if (entry.sequence.load(std::memory_order_acquire) != call || entry.call_hash != hash) break;
    entered[owner] = call;
    if (fetches_next) fetch_next(owner);
  }
  return place;
}

/// A peer that runs ahead has filled the next entry too; it comes while this one is worked on.
void Entries::fetch_next(Rank peer) const {
  const RankBlock& block = *team_.member(peer).block;
  const std::uint64_t next = (sequence_ + 1) % kEntries;
  __builtin_prefetch(&block.entries[next]);
  if (launch_.plan().input_bytes(peer) > kInlineBytes) __builtin_prefetch(&block.notes[next]);
}

const std::byte* Entries::packet_of(Rank owner) const {
  const Member& member = team_.member(owner);
  PacketPlace place;
  std::memcpy(&place, member.block->entries[sequence_ % kEntries].payload, sizeof place);
  const auto packet = memory_of(member, owner, place.offset, launch_.plan().input_bytes(owner));
  return packet ? *packet : nullptr;
}

Error Entries::mismatch(Rank peer, const CallSignature& theirs) const {
  const Member& self = team_.member(team_.rank());
  const Member& member = team_.member(peer);
  const CollectiveArgs& args = launch_.args();
  const std::string caption = read_caption(member.block->captions[sequence_ % kEntries]);
  return peer_error(
      Code::kInvalidUsage, peer,
      "the ranks made different calls as number {} of this communicator: {} calls {}, "
      "{} calls {}; all ranks must make the same calls in the same order",
      sequence_, self.label, shown(*args.call, args.caption), member.label, shown(theirs, caption));
}

}  // namespace tutti::exec
