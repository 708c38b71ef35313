#include "src/exec/direct_buffers.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include <sched.h>

#include "src/base/clock.hpp"
#include "src/base/log.hpp"
#include "src/base/process_memory.hpp"

namespace tutti::exec {

using lower::ProgramMemory;

namespace {

/// Buffers of peers are touched so many bytes at a time, so that a rank that gives up or aborts has
/// them back soon.
constexpr std::size_t kTouchBytes = std::size_t{1} << 20;
/// How long a rank that failed waits for that: who takes longer was stopped in the middle.
constexpr auto kLongestTouch = std::chrono::milliseconds(100);

/// While it lives, peers that give up wait (see Progress::touching).
class Touch {
 public:
  Touch(Progress& progress, LocalPlaces& places, std::uint64_t call)
      : progress_(progress), places_(places) {
    set(call, std::memory_order_seq_cst);
  }
  ~Touch() { set(0, std::memory_order_release); }
  Touch(const Touch&) = delete;
  Touch& operator=(const Touch&) = delete;

 private:
  void set(std::uint64_t call, std::memory_order order) {
    places_.touching.store(call, order);
    progress_.touching.store(call, order);
  }
  Progress& progress_;
  LocalPlaces& places_;
};

/// What was loaded before it was loaded before anything after it.
void order_loads() {
#if !defined(__SANITIZE_THREAD__)  // g++'s knows no fences
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

}  // namespace

// --- announcing and agreeing ---

void DirectBuffers::announce(bool declines) {
  const CollectiveArgs& args = launch_.args();
  const std::size_t input_bytes = launch_.plan().input_bytes(team_.rank());
  const std::size_t output_bytes = launch_.plan().output_bytes(team_.rank());
  const auto offset_and_1 = [&](const std::byte* data, std::size_t bytes) -> std::uint64_t {
    if (bytes == 0) return 1;
    return team_.heap().is_shared(data, bytes) ? team_.offset_of(data) + 1 : 0;
  };
  BufferPlaces places;
  places.input_address = reinterpret_cast<std::uint64_t>(args.input);
  places.input_offset_and_1 = offset_and_1(args.input, input_bytes);
  places.output_offset_and_1 = offset_and_1(args.output, output_bytes);
  const bool in_heap = places.input_offset_and_1 != 0 && places.output_offset_and_1 != 0;
  mapped_by_all_ = team_.options().direct && !declines && (in_heap || team_.in_one_process());
  places.mapped_by_all = mapped_by_all_ ? 1 : 0;
  std::memcpy(entries_.own().payload, &places, sizeof places);

  const std::uint64_t call = entries_.sequence();
  LocalPlaces::Place& local = team_.member(team_.rank()).places->places[call % kEntries];
  local.input = args.input;
  local.output = args.output;
  local.mapped_by_all = mapped_by_all_;
  local.sequence.store(call, std::memory_order_release);
}

Result<std::optional<bool>> DirectBuffers::all_mapped() {
  if (!mapped_by_all_) return std::optional(false);
  for (Rank peer = 0; peer < team_.size(); ++peer) {
    if (peer == team_.rank()) continue;
    TUTTI_ASSIGN(const bool entered, entries_.has_entered(peer));
    if (!entered) return std::optional<bool>();
    TUTTI_TRY(find(peer));
    const PeerBuffers& buffers = peers_[peer];
    if (!buffers.mapped_by_all) return std::optional(false);
    if (buffers.input == nullptr || buffers.output == nullptr)
      return peer_error(Code::kPeerFailed, peer, "{} announces buffers outside of its heap",
                        team_.member(peer).label);
  }
  return std::optional(true);
}

Status DirectBuffers::find(std::span<const Place> places) {
  for (const Place& place : places)
    if (lower::is_peers_buffer(place.memory)) TUTTI_TRY(find(place.owner));
  return ok_status();
}

/// Of a peer that has entered this call, as it announced them: taken once and validated.
Status DirectBuffers::find(Rank peer) {
  PeerBuffers& buffers = peers_[peer];
  const std::uint64_t call = entries_.sequence();
  if (buffers.sequence == call) return ok_status();
  const Plan& plan = launch_.plan();
  const Member& member = team_.member(peer);
  BufferPlaces places;
  std::memcpy(&places, member.block->entries[call % kEntries].payload, sizeof places);
  buffers = {};
  buffers.input_address = places.input_address;
  buffers.mapped_by_all = places.mapped_by_all != 0;
  if (member.places) {  // what shared memory says of this process's own memory may be forged
    const LocalPlaces::Place& local = member.places->places[call % kEntries];
    if (local.sequence.load(std::memory_order_acquire) != call)
      return peer_error(Code::kPeerFailed, peer, "{} is not in call {}, which its entry names",
                        member.label, call);
    buffers.mapped_by_all = local.mapped_by_all;
    // A buffer of no bytes may have any address.
    buffers.input = plan.input_bytes(peer) > 0 ? local.input : member.heap.data();
    buffers.output = plan.output_bytes(peer) > 0 ? local.output : member.heap.data();
  } else {
    const auto in_heap = [&](std::uint64_t offset_and_1, std::size_t bytes) -> std::byte* {
      const std::uint64_t offset = offset_and_1 - 1;
      const bool inside =
          offset_and_1 != 0 && offset < member.heap.size() && bytes <= member.heap.size() - offset;
      return inside ? member.heap.data() + offset : nullptr;
    };
    buffers.input = in_heap(places.input_offset_and_1, plan.input_bytes(peer));
    buffers.output = in_heap(places.output_offset_and_1, plan.output_bytes(peer));
  }
  buffers.sequence = call;
  return ok_status();
}

// --- touching ---

Status DirectBuffers::run_pass(const Pass& pass, std::span<const std::byte*> sources,
                               std::span<Destination> destinations) {
  const Place& first = launch_.plan().sources(pass)[0];
  if (first.memory == ProgramMemory::kPublished && input(first.owner) == nullptr)
    return read_input(first, destinations[0].data, pass);
  for (std::size_t done = 0; done < pass.bytes; done += kTouchBytes) {
    const std::size_t part = std::min(kTouchBytes, pass.bytes - done);
    const Touch touch(team_.own_block().progress, *team_.member(team_.rank()).places,
                      entries_.sequence());
    TUTTI_TRY(check_owners(pass));
    if (team_.abort_word().raised()) return team_.abort_word().error();
    launch_.combine(sources, 0, destinations, part, pass.completes);
    for (const std::byte*& source : sources) source += part;
    for (Destination& destination : destinations) destination.data += part;
  }
  return check_owners(pass);
}

/// Copies from where a peer's input lies in its process, through the kernel.
Status DirectBuffers::read_input(const Place& source, std::byte* to, const Pass& pass) {
  const Member& owner = team_.member(source.owner);
  const std::uint64_t from = peers_[source.owner].input_address + source.offset;
  const Status read = read_process_memory(owner.process, from, {to, pass.bytes});
  TUTTI_TRY(check_owners(pass));  // one that gave up may have unmapped it
  if (!read)
    return peer_error(Code::kPeerFailed, source.owner, "the send buffer of {}: {}", owner.label,
                      read.error().what);
  return ok_status();
}

/// An owner that fails may do with its buffers what it likes before all have come to them, but not
/// before it says so.
Status DirectBuffers::check_owners(const Pass& pass) const {
  order_loads();
  for (const Place& place : launch_.plan().places(pass)) {
    if (!lower::is_peers_buffer(place.memory)) continue;
    const Member& owner = team_.member(place.owner);
    if (owner.block->progress.gave_up.load() != 0)
      return peer_error(Code::kAborted, place.owner,  // for a reason that is on its way
                        "{} gave up while its buffers were in use: see its own error", owner.label);
  }
  return ok_status();
}

// --- giving them back ---

Result<bool> DirectBuffers::are_free() {
  const Plan& plan = launch_.plan();
  for (const Rank user : plan.buffer_users()) {
    TUTTI_ASSIGN(const bool same_call, entries_.has_entered(user));
    if (!same_call || !progress_.reached(user, 0)) return false;
  }
  const std::size_t bytes = plan.output_bytes(team_.rank());
  const bool written = mapped_by_all_ && !team_.in_one_process() && plan.is_written();
  if (written && bytes > 0 && !team_.heap().is_shared(launch_.args().output, bytes))
    return make_error(Code::kPeerFailed,
                      "the receive buffer shares a page with one of a communicator that failed "
                      "meanwhile, and so did not get all results: keep them pages apart");
  return true;
}

/// One that was stopped in the middle may go on at any later time: what it writes then does not
/// reach the caller.
void DirectBuffers::take_back() {
  team_.own_block().progress.gave_up.store(1);
  const auto deadline = Deadline::after(kLongestTouch);
  const Plan& plan = launch_.plan();
  for (const Rank user : plan.buffer_users()) {
    const Member& member = team_.member(user);
    if (member.block == nullptr) continue;
    if (!was_stopped_inside(member, deadline) || !plan.is_written_by(user)) continue;
    const Status detached =
        team_.heap().detach({launch_.args().output, plan.output_bytes(team_.rank())});
    if (!detached)
      log_warn(team_.member(team_.rank()).label, "{} may still write into the receive buffer: {}",
               member.label, detached.error().what);
  }
}

/// Waits until `peer` touches nothing. True when it neither does so in time nor ends.
bool DirectBuffers::was_stopped_inside(const Member& peer, Deadline deadline) const {
  const auto& touching = peer.places ? peer.places->touching : peer.block->progress.touching;
  const auto is_inside = [&] { return touching.load() == entries_.sequence(); };
  while (is_inside()) {
    sched_yield();
    if (peer.places) continue;  // a thread of this process goes on, or nobody does
    if (deadline.passed() || peer.life.ended()) break;
  }
  return !peer.places && is_inside() && !peer.life.ended();
}

}  // namespace tutti::exec
