#include "src/exec/collective.hpp"

#include <cstring>
#include <utility>

#include <sched.h>

#include "src/base/clock.hpp"
#include "src/base/fetch_to_write.hpp"
#include "src/base/log.hpp"
#include "src/base/process_memory.hpp"
#include "src/exec/caption.hpp"

namespace tutti::exec {

using lower::Memory;
using lower::OpKind;
using lower::Protocol;

namespace {

/// Below a few lines the fence after streaming stores costs more than they save.
constexpr std::size_t kStreamFrom = 1024;

/// Entries whose lines are taken back from their readers this many calls before they are refilled.
constexpr std::uint64_t kFetchAhead = 4;

/// Up to so many operands of a pass, what their owners publish next is fetched ahead. Ranks that
/// read from many peers are in step, as a rule, so that the line would come twice.
constexpr std::size_t kFewPlaces = 4;

/// Buffers of peers are touched so many bytes at a time, so that a rank that gives up or aborts has
/// them back soon.
constexpr std::size_t kTouchBytes = std::size_t{1} << 20;
/// How long a rank that failed waits for that: who takes longer was stopped in the middle.
constexpr auto kLongestTouch = std::chrono::milliseconds(100);

/// While it lives, peers that give up wait (see Progress::touching).
class Touch {
 public:
  Touch(Progress& progress, LocalPlaces& places, std::uint64_t call)
      : progress_(progress), places_(places), touches_(call != 0) {
    if (touches_) set(call, std::memory_order_seq_cst);
  }
  ~Touch() {
    if (touches_) set(0, std::memory_order_release);
  }
  Touch(const Touch&) = delete;
  Touch& operator=(const Touch&) = delete;

 private:
  void set(std::uint64_t call, std::memory_order order) {
    places_.touching.store(call, order);
    progress_.touching.store(call, order);
  }
  Progress& progress_;
  LocalPlaces& places_;
  const bool touches_;
};

/// What was loaded before it was loaded before anything after it.
void order_loads() {
#if !defined(__SANITIZE_THREAD__)  // g++'s knows no fences
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

std::uint64_t mix(std::uint64_t value) {
  value ^= value >> 33;
  value *= 0xff51afd7ed558ccdULL;
  value ^= value >> 33;
  value *= 0xc4ceb9fe1a85ec53ULL;
  return value ^ (value >> 33);
}

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
  return mix(kinds + 0x9e3779b97f4a7c15ULL) ^ mix(call.count);
}

void CollectiveRun::start(const Plans& plans, const CollectiveArgs& args) {
  plans_ = plans;
  plan_ = plans.direct != nullptr ? plans.direct : plans.plan;
  args_ = &args;
  iteration_ = 0;
  op_ = 0;
  place_ = 0;
  own_slots_ = nullptr;
  ++team_.sequence;
  published_at_ = PublishedAt(team_.sequence);
  phase_ = Phase::kEnter;
}

Result<Poll> CollectiveRun::poll() {
  if (team_.abort_word().raised()) return team_.abort_word().error();
  for (;;) {
    bool over = false;
    switch (phase_) {
      case Phase::kEnter: {
        TUTTI_ASSIGN(over, enter());
        if (over) phase_ = plans_.direct != nullptr ? Phase::kAgree : first_phase();
        break;
      }
      case Phase::kAgree: {
        TUTTI_ASSIGN(over, agree_on_plan());
        if (over) phase_ = first_phase();
        break;
      }
      case Phase::kReuse: {
        TUTTI_ASSIGN(over, may_reuse_staging());
        if (over) phase_ = Phase::kRun;
        break;
      }
      case Phase::kPass: {
        TUTTI_ASSIGN(over, run_passes());
        if (!over) break;
        if (plan_->lowered().protocol == Protocol::kPublished) {
          phase_ = Phase::kIdle;
          return Poll::kDone;
        }
        leave();
        phase_ = Phase::kFarewell;
        break;
      }
      case Phase::kFarewell: {
        TUTTI_ASSIGN(over, buffers_are_free());
        if (over) phase_ = Phase::kIdle;
        break;
      }
      case Phase::kRun: {
        TUTTI_ASSIGN(over, run_ops());
        if (over) phase_ = Phase::kDrain;
        break;
      }
      case Phase::kDrain: {
        TUTTI_ASSIGN(over, drained());
        if (!over) break;
        leave();
        phase_ = Phase::kIdle;
        break;
      }
      case Phase::kIdle:
        return Poll::kDone;
    }
    if (!over) {
      team_.progress_connections();  // a posted send may need this rank while it waits for another
      return Poll::kPending;
    }
  }
}

/// Of the plan that was decided on.
CollectiveRun::Phase CollectiveRun::first_phase() {
  all_there_.reset();
  stores_ = {};
  if (StoreChoice* const choice = plan_->store_choice()) stores_ = choice->begin();
  return lower::one_round(plan_->lowered().protocol) ? Phase::kPass : Phase::kReuse;
}

Status CollectiveRun::check_peers() {
  const Rank peer = team_.waiting_for();
  if (!team_.has_left(peer)) return ok_status();
  TUTTI_ASSIGN(const Poll state, poll());  // sees whatever the peer did before it left
  if (state == Poll::kPending && team_.waiting_for() == peer) return team_.left_error(peer);
  return ok_status();
}

// --- entering ---

Result<bool> CollectiveRun::enter() {
  const std::uint64_t sequence = team_.sequence;
  if (sequence > kEntries && !is_unread(sequence - kEntries, kEntries / 4)) return false;
  const bool publishes = plan_->lowered().protocol == Protocol::kPublished;
  if (publishes && plan_->input_bytes(team_.rank()) > kNoteBytes) {
    // What lies in the packet may be older than kPackets calls. If its entry has been refilled
    // since, it is unread.
    std::uint64_t& filled = team_.packet_filled[sequence % kPackets];
    if (filled + kEntries > sequence && filled > 0 && !is_unread(filled, kPackets / 4))
      return false;
    filled = sequence;
  }
  // Whether all buffers are mapped, everyone asks everyone.
  team_.entry_readers[sequence % kEntries] =
      plans_.direct != nullptr ? ~std::uint64_t{0} : plan_->entry_readers();
  RankBlock& block = team_.own_block();
  Entry& entry = block.entries[sequence % kEntries];
  const std::uint64_t hash = args_->call_hash;
  if (std::exchange(team_.entry_hash[sequence % kEntries], hash) != hash) {
    entry.call = *args_->call;
    entry.call_hash = hash;
  }
  if (!args_->caption.empty()) [[unlikely]]
    write_caption(block.captions[sequence % kEntries], args_->caption);
  if (publishes) TUTTI_TRY(publish_input());
  if (plan_->lowered().protocol == Protocol::kDirect) announce_buffers(entry);
  entry.sequence.store(sequence, std::memory_order_release);
  wake_sleepers(entry.sequence, block.progress.sleepers);
  fetch_to_write(&block.entries[(sequence + kFetchAhead) % kEntries]);
  return true;
}

/// Whether nobody reads any more what this rank published in `call`, one of the last kEntries.
/// Where that is not known yet it waits for `stride` more calls than it must, so that one look at a
/// peer serves for many, and a rank that is far ahead does not watch over each step of the others.
bool CollectiveRun::is_unread(std::uint64_t call, std::uint64_t stride) {
  if (team_.entered_by_all > call) return true;
  const std::uint64_t readers = team_.entry_readers[call % kEntries];
  for (Rank peer = 0; peer < team_.size() && readers != 0; ++peer)
    if (is_behind(peer, readers, call + 1)) return have_entered(readers, call + 1 + stride);
  team_.entered_by_all = *std::ranges::min_element(team_.entered);
  return true;
}

Status CollectiveRun::publish_input() {
  const std::size_t bytes = plan_->input_bytes(team_.rank());
  if (bytes == 0) return ok_status();
  TUTTI_CHECK(bytes <= kPacketBytes, "bytes={}", bytes);
  const Destination to{published_at_.in(team_.own_block(), holder_of(bytes)),
                       team_.stores_for_peers()};
  if (args_->reduction.op == ReduceOp::kPreMulSum) {
    const std::byte* const source = args_->input;
    reduce(args_->reduction, {&source, 1}, 1, {&to, 1}, bytes / plan_->element_bytes());
  } else if (bytes <= kInlineBytes) {
    std::memcpy(to.data, args_->input, bytes);
  } else {
    copy_bytes(args_->input, {&to, 1}, bytes);
  }
  return ok_status();
}

void CollectiveRun::announce_buffers(Entry& entry) {
  const Member& self = team_.member(team_.rank());
  const std::size_t input_bytes = plan_->input_bytes(team_.rank());
  const std::size_t output_bytes = plan_->output_bytes(team_.rank());
  const auto offset_and_1 = [&](const std::byte* data, std::size_t bytes) -> std::uint64_t {
    if (bytes == 0) return 1;
    return team_.heap().is_shared(data, bytes) ? team_.offset_of(data) + 1 : 0;
  };
  BufferPlaces places;
  places.input_address = reinterpret_cast<std::uint64_t>(args_->input);
  places.input_offset_and_1 = offset_and_1(args_->input, input_bytes);
  places.output_offset_and_1 = offset_and_1(args_->output, output_bytes);
  const bool in_heap = places.input_offset_and_1 != 0 && places.output_offset_and_1 != 0;
  mapped_by_all_ =
      team_.options().direct && !plans_.declines && (in_heap || team_.in_one_process());
  places.mapped_by_all = mapped_by_all_ ? 1 : 0;
  std::memcpy(entry.payload, &places, sizeof places);
  LocalPlaces::Place& local = self.places->places[team_.sequence % kEntries];
  local.input = args_->input;
  local.output = args_->output;
  local.mapped_by_all = mapped_by_all_;
  local.sequence.store(team_.sequence, std::memory_order_release);
}

/// All ranks look at the same announcements, so they come to the same decision.
Result<bool> CollectiveRun::agree_on_plan() {
  const auto stage = [this] {
    plan_ = plans_.plan;
    return true;
  };
  if (!mapped_by_all_) return stage();
  for (Rank peer = 0; peer < team_.size(); ++peer) {
    if (peer == team_.rank()) continue;
    TUTTI_ASSIGN(const bool entered, has_entered(peer));
    if (!entered) return false;
    TUTTI_TRY(find_buffers_of(peer));
    const PeerBuffers& buffers = peers_[peer];
    if (!buffers.mapped_by_all) return stage();
    if (buffers.input == nullptr || buffers.output == nullptr)
      return peer_error(Code::kPeerFailed, peer, "{} announces buffers outside of its heap",
                        team_.member(peer).label);
  }
  return true;
}

/// Of a peer that has entered this call, as it announced them: taken once and validated.
Status CollectiveRun::find_buffers_of(Rank peer) {
  PeerBuffers& buffers = peers_[peer];
  if (buffers.sequence == team_.sequence) return ok_status();
  const Member& member = team_.member(peer);
  const std::uint64_t entry = team_.sequence % kEntries;
  BufferPlaces places;
  std::memcpy(&places, member.block->entries[entry].payload, sizeof places);
  buffers = {};
  buffers.input_address = places.input_address;
  buffers.mapped_by_all = places.mapped_by_all != 0;
  if (member.places) {  // what shared memory says of this process's own memory may be forged
    const LocalPlaces::Place& local = member.places->places[entry];
    if (local.sequence.load(std::memory_order_acquire) != team_.sequence)
      return peer_error(Code::kPeerFailed, peer, "{} is not in call {}, which its entry names",
                        member.label, team_.sequence);
    buffers.mapped_by_all = local.mapped_by_all;
    // A buffer of no bytes may have any address.
    buffers.input = plan_->input_bytes(peer) > 0 ? local.input : member.heap.data();
    buffers.output = plan_->output_bytes(peer) > 0 ? local.output : member.heap.data();
  } else {
    const auto in_heap = [&](std::uint64_t offset_and_1, std::size_t bytes) -> std::byte* {
      const std::uint64_t offset = offset_and_1 - 1;
      const bool inside =
          offset_and_1 != 0 && offset < member.heap.size() && bytes <= member.heap.size() - offset;
      return inside ? member.heap.data() + offset : nullptr;
    };
    buffers.input = in_heap(places.input_offset_and_1, plan_->input_bytes(peer));
    buffers.output = in_heap(places.output_offset_and_1, plan_->output_bytes(peer));
  }
  buffers.sequence = team_.sequence;
  return ok_status();
}

/// Whether `peer` is a mapped one among `ranks` that is not known to have entered call `sequence`.
bool CollectiveRun::is_behind(Rank peer, std::uint64_t ranks, std::uint64_t sequence) const {
  return team_.entered[peer] < sequence && (ranks >> (peer % 64) & 1) != 0;
}

/// Whether every mapped peer among `ranks` has entered call `sequence` (and so left the one
/// before).
bool CollectiveRun::have_entered(std::uint64_t ranks, std::uint64_t sequence) {
  for (Rank peer = 0; peer < team_.size(); ++peer) {
    if (!is_behind(peer, ranks, sequence)) continue;
    RankBlock* block = team_.member(peer).block;
    const auto& word = block->entries[sequence % kEntries].sequence;
    const std::uint64_t seen = word.load(std::memory_order_acquire);
    if (seen < sequence) {
      team_.blocked_on(peer, {&word, seen, &block->progress.sleepers});
      return false;
    }
    team_.entered[peer] = sequence;
  }
  return true;
}

/// Whether a mapped peer has entered this call; an error when it made another one.
Result<bool> CollectiveRun::has_entered(Rank peer) {
  if (team_.entered[peer] >= team_.sequence) return true;
  RankBlock* block = team_.member(peer).block;
  const Entry& entry = block->entries[team_.sequence % kEntries];
  const std::uint64_t seen = entry.sequence.load(std::memory_order_acquire);
  if (seen < team_.sequence) {
    team_.blocked_on(peer, {&entry.sequence, seen, &block->progress.sleepers});
    return false;
  }
  if (seen > team_.sequence)
    return peer_error(
        Code::kInvalidUsage, peer,
        "{} is in call {} and did not wait for {} in call {}: all ranks must make the "
        "same calls in the same order",
        team_.member(peer).label, seen, team_.member(team_.rank()).label, team_.sequence);
  if (entry.call_hash != args_->call_hash) return mismatch(peer, read_call(entry.call));
  team_.entered[peer] = team_.sequence;
  fetch_next(peer);
  return true;
}

/// A peer that runs ahead has filled the next entry too; it comes while this one is worked on.
void CollectiveRun::fetch_next(Rank peer) const {
  const RankBlock& block = *team_.member(peer).block;
  const std::uint64_t next = (team_.sequence + 1) % kEntries;
  __builtin_prefetch(&block.entries[next]);
  if (plan_->input_bytes(peer) > kInlineBytes) __builtin_prefetch(&block.notes[next]);
}

Error CollectiveRun::mismatch(Rank peer, const CallSignature& theirs) const {
  const std::string caption =
      read_caption(team_.member(peer).block->captions[team_.sequence % kEntries]);
  return peer_error(
      Code::kInvalidUsage, peer,
      "the ranks made different calls as number {} of this communicator: {} calls {}, "
      "{} calls {}; all ranks must make the same calls in the same order",
      team_.sequence, team_.member(team_.rank()).label, shown(*args_->call, args_->caption),
      team_.member(peer).label, shown(theirs, caption));
}

/// Staging alternates between two regions; the one of this call is free once all have left the call
/// before last. Nobody comes beyond this in call k + 2 before all have left call k: on that
/// Team::peer_region() relies.
Result<bool> CollectiveRun::may_reuse_staging() {
  const std::vector<std::uint64_t>& free = team_.region_free[team_.staged_calls % 2];
  for (Rank peer = 0; peer < team_.size(); ++peer) {
    if (peer == team_.rank() || team_.member(peer).block == nullptr) continue;
    TUTTI_ASSIGN(const bool left, reached(peer, free[peer]));
    if (!left) return false;
  }
  if (!plan_->program().slots.empty()) {
    const bool receives = plan_->output_bytes(team_.rank()) > 0;
    const std::byte* const data = receives ? args_->output : args_->input;
    TUTTI_ASSIGN(own_slots_, team_.enter_region(lead_of(data)));
  }
  scratch_ = nullptr;
  if (const std::size_t bytes = plan_->scratch_bytes(); bytes > 0) {
    scratch_ = team_.scratch(bytes);
    if (scratch_ == nullptr)
      return make_error(Code::kUnavailable, "no memory for {} bytes of scratch", bytes);
  }
  return true;
}

// --- running ---

Result<bool> CollectiveRun::run_ops() {
  const lower::Program& program = plan_->program();
  const std::uint64_t iterations = program.iterations(plan_->slices());
  while (iteration_ < iterations) {
    const lower::Op& op = program.ops[op_];
    const std::uint64_t slice = iteration_ - op.stage;
    if (iteration_ >= op.stage && slice < plan_->slices()) {
      TUTTI_ASSIGN(const bool may_run, ready(op_, slice));
      if (!may_run) return false;
      if (op.stage > 0) start_stopwatch();
      TUTTI_TRY(execute(op_, slice));
      if (op.published) {
        Progress& progress = team_.own_block().progress;
        progress.progress.store(team_.base[team_.rank()] + program.position(op_, slice),
                                std::memory_order_release);
        wake_sleepers(progress.progress, progress.sleepers);
      }
    }
    if (++op_ == program.ops.size()) {
      op_ = 0;
      ++iteration_;
    }
  }
  return true;
}

Result<bool> CollectiveRun::ready(std::uint32_t op_id, std::uint64_t slice) {
  const lower::Op& op = plan_->program().ops[op_id];
  for (const BoundWait& wait : plan_->waits(op_id)) {
    const std::int64_t wanted = static_cast<std::int64_t>(slice) + wait.delta;
    if (wanted < 0) continue;
    // First, since the progress of a peer that makes another call means nothing here.
    TUTTI_ASSIGN(const bool same_call, has_entered(wait.rank));
    if (!same_call) return false;
    const std::uint64_t position =
        team_.base[wait.rank] + static_cast<std::uint64_t>(wanted) * wait.stride + wait.offset;
    TUTTI_ASSIGN(const bool there, reached(wait.rank, position));
    if (!there) return false;
  }
  for (const lower::TransferWait& wait : op.transfers) {
    const std::int64_t wanted = static_cast<std::int64_t>(slice) + wait.slice_delta;
    if (wanted < 0) continue;
    TUTTI_ASSIGN(const bool done, transfers_done(wait.op, static_cast<std::uint64_t>(wanted)));
    if (!done) return false;
  }
  if (op.peer != kNoRank && slice >= TransferRing::kDepth)
    return transfers_done(op_id, slice - TransferRing::kDepth);
  return true;
}

Result<bool> CollectiveRun::reached(Rank peer, std::uint64_t position) {
  if (team_.seen_progress[peer] >= position) return true;
  Progress& progress = team_.member(peer).block->progress;
  const std::uint64_t seen = progress.progress.load(std::memory_order_acquire);
  team_.seen_progress[peer] = seen;
  if (seen >= position) return true;
  team_.blocked_on(peer, {&progress.progress, seen, &progress.sleepers});
  return false;
}

Result<bool> CollectiveRun::transfers_done(std::uint32_t op_id, std::uint64_t slice) {
  TransferRing& ring = plan_->ring(op_id);
  if (ring.posted[slice % TransferRing::kDepth] != slice + 1) return true;
  bool progressed = false;
  for (std::uint32_t piece = 0; piece < ring.pieces; ++piece) {
    const Transfer& transfer = ring.at(slice, piece);
    Transfer::State state = transfer.state.load(std::memory_order_acquire);
    if (state == Transfer::State::kPending && !progressed) {
      team_.progress_connections();
      progressed = true;
      state = transfer.state.load(std::memory_order_acquire);
    }
    if (state == Transfer::State::kFailed) return transfer.error;
    if (state == Transfer::State::kPending) {
      team_.blocked_on_network(plan_->program().ops[op_id].peer);
      return false;
    }
  }
  ring.posted[slice % TransferRing::kDepth] = 0;
  return true;
}

Result<bool> CollectiveRun::drained() {
  for (const std::uint32_t id : plan_->transfer_ops()) {
    for (const std::uint64_t posted : plan_->ring(id).posted) {
      if (posted == 0) continue;
      TUTTI_ASSIGN(const bool done, transfers_done(id, posted - 1));
      if (!done) return false;
    }
  }
  return team_.flushed();
}

void CollectiveRun::leave() {
  std::vector<std::uint64_t>& free = team_.region_free[team_.staged_calls % 2];
  for (Rank rank = 0; rank < team_.size(); ++rank) {
    team_.base[rank] += plan_->lowered().programs[rank].positions(plan_->slices());
    free[rank] = team_.base[rank];
  }
  if (std::exchange(own_slots_, nullptr) != nullptr) team_.leave_region();
  ++team_.staged_calls;
  Progress& progress = team_.own_block().progress;
  progress.progress.store(team_.base[team_.rank()], std::memory_order_release);
  wake_sleepers(progress.progress, progress.sleepers);
  if (all_there_) plan_->store_choice()->end(Clock::now() - *all_there_);
}

/// With kDirect the caller gets its buffers back only when nobody touches them any more.
Result<bool> CollectiveRun::buffers_are_free() {
  for (const Rank user : plan_->buffer_users()) {
    TUTTI_ASSIGN(const bool same_call, has_entered(user));
    if (!same_call) return false;
    TUTTI_ASSIGN(const bool left, reached(user, team_.base[user]));
    if (!left) return false;
  }
  const std::size_t bytes = plan_->output_bytes(team_.rank());
  const bool written = mapped_by_all_ && !team_.in_one_process() && plan_->is_written();
  if (written && bytes > 0 && !team_.heap().is_shared(args_->output, bytes))
    return make_error(Code::kPeerFailed,
                      "the receive buffer shares a page with one of a communicator that failed "
                      "meanwhile, and so did not get all results: keep them pages apart");
  return true;
}

/// Returns when no peer touches this rank's buffers any more. One that was stopped in the middle
/// may go on at any later time: what it writes then does not reach the caller.
void CollectiveRun::take_buffers_back() {
  team_.own_block().progress.gave_up.store(1);
  const auto deadline = Deadline::after(kLongestTouch);
  for (const Rank user : plan_->buffer_users()) {
    const Member& member = team_.member(user);
    if (member.block == nullptr) continue;
    const auto& touching =
        member.places ? member.places->touching : member.block->progress.touching;
    for (bool late = false; touching.load() == team_.sequence && !late;) {
      sched_yield();
      if (member.places) continue;  // a thread of this process goes on, or nobody does
      late = deadline.passed() || member.life.ended();
    }
    const bool stopped = touching.load() == team_.sequence && !member.life.ended();
    if (!stopped || member.places || !plan_->is_written_by(user)) continue;
    const Status detached = team_.heap().detach({args_->output, plan_->output_bytes(team_.rank())});
    if (!detached)
      log_warn(team_.member(team_.rank()).label, "{} may still write into the receive buffer: {}",
               member.label, detached.error().what);
  }
}

void CollectiveRun::cancel() {
  if (phase_ == Phase::kIdle || plan_ == nullptr) return;
  if (plan_->lowered().protocol == Protocol::kDirect && phase_ != Phase::kEnter)
    take_buffers_back();
  phase_ = Phase::kIdle;
  for (const std::uint32_t id : plan_->transfer_ops()) {
    const lower::Op& op = plan_->program().ops[id];
    const bool sends = op.kind == OpKind::kSend;
    const StreamId stream{team_.options().communicator, sends ? team_.rank() : op.peer,
                          sends ? op.peer : team_.rank(), op.lane};
    TransferRing& ring = plan_->ring(id);
    for (std::uint64_t& posted : ring.posted) {
      if (posted == 0) continue;
      for (std::uint32_t piece = 0; piece < ring.pieces; ++piece)
        team_.member(op.peer).connection->cancel(stream, ring.at(posted - 1, piece));
      posted = 0;
    }
  }
}

// --- executing ---

Status CollectiveRun::execute(std::uint32_t op_id, std::uint64_t slice) {
  const lower::Op& op = plan_->program().ops[op_id];
  switch (op.kind) {
    case OpKind::kCombine:
      return combine(op, slice);
    case OpKind::kEncode:
    case OpKind::kDecode:
      return convert(op, slice);
    case OpKind::kSend:
    case OpKind::kRecv:
      return post(op_id, slice);
  }
  return ok_status();
}

Status CollectiveRun::combine(const lower::Op& op, std::uint64_t slice) {
  const bool scales = args_->reduction.op == ReduceOp::kPreMulSum;
  std::uint64_t scaled = 0;
  for (std::size_t s = 0; scales && s < op.sources.size(); ++s)
    if (op.sources[s].memory == Memory::kInput) scaled |= std::uint64_t{1} << s;

  for (std::uint32_t i = 0; i < op.like.size(); ++i) {
    const std::size_t bytes = plan_->slice_of(op.like[i], slice).size() * plan_->element_bytes();
    if (bytes == 0) continue;
    for (std::size_t s = 0; s < op.sources.size(); ++s) {
      TUTTI_ASSIGN(sources_[s], locate(op.sources[s], i, slice));
    }
    for (std::size_t d = 0; d < op.destinations.size(); ++d) {
      TUTTI_ASSIGN(std::byte* const data, locate(op.destinations[d], i, slice));
      destinations_[d] = {data, stores_to(op.destinations[d].memory, bytes)};
    }
    combine({sources_.data(), op.sources.size()}, scaled,
            {destinations_.data(), op.destinations.size()}, bytes, op.completes);
  }
  return ok_status();
}

void CollectiveRun::combine(std::span<const std::byte* const> sources, std::uint64_t scaled,
                            std::span<const Destination> destinations, std::size_t bytes,
                            bool completes) const {
  if (sources.size() == 1 && scaled == 0) return copy_bytes(sources[0], destinations, bytes);
  Reduction reduction = args_->reduction;
  if (completes && reduction.op == ReduceOp::kAvg)
    reduction.divisor = plan_->lowered().request.ranks;
  reduce(reduction, sources, scaled, destinations, bytes / plan_->element_bytes());
}

Stores CollectiveRun::stores_to(Memory memory, std::size_t bytes) const {
  const bool streams = memory == Memory::kOutput ? stores_.output : stores_.peers;
  const bool pays = streams && bytes >= kStreamFrom && memory != Memory::kScratch;
  if (pays) return Stores::kNonTemporal;
  const bool peers_have_it = memory == Memory::kSlot || memory == Memory::kPeerOutput;
  return peers_have_it ? team_.stores_for_peers() : Stores::kCached;
}

/// How long a call takes says something about its stores only from when all peers are there: with
/// kDirect at once, in a pipeline once it has something to read from its peers.
void CollectiveRun::start_stopwatch() {
  if (!all_there_ && plan_->store_choice() != nullptr) all_there_ = Clock::now();
}

Status CollectiveRun::convert(const lower::Op& op, std::uint64_t slice) {
  const Codec& codec = *plan_->codec();
  for (std::uint32_t i = 0; i < op.like.size(); ++i) {
    const ir::ElementRange range = plan_->slice_of(op.like[i], slice);
    if (range.size() == 0) continue;
    const std::size_t plain = range.size() * plan_->element_bytes();
    const std::size_t encoded = codec.encoded_bytes(range.size());
    TUTTI_ASSIGN(const std::byte* const from, locate(op.sources[0], i, slice));
    for (const lower::Operand& destination : op.destinations) {
      TUTTI_ASSIGN(std::byte* const to, locate(destination, i, slice));
      if (op.kind == OpKind::kEncode)
        codec.encode({from, plain}, {to, encoded}, range.size());
      else
        codec.decode({from, encoded}, {to, plain}, range.size());
    }
  }
  return ok_status();
}

Status CollectiveRun::post(std::uint32_t op_id, std::uint64_t slice) {
  const lower::Op& op = plan_->program().ops[op_id];
  const bool sends = op.kind == OpKind::kSend;
  const StreamId stream{team_.options().communicator, sends ? team_.rank() : op.peer,
                        sends ? op.peer : team_.rank(), op.lane};
  const MessageTag tag{team_.sequence, *args_->call};
  Connection& connection = *team_.member(op.peer).connection;
  TransferRing& ring = plan_->ring(op_id);
  ring.posted[slice % TransferRing::kDepth] = slice + 1;
  for (std::uint32_t i = 0; i < ring.pieces; ++i) {
    Transfer& transfer = ring.at(slice, i);
    const ir::ElementRange range = plan_->slice_of(op.like[i], slice);
    if (range.size() == 0) {  // both sides know that nothing travels
      transfer.state.store(Transfer::State::kDone, std::memory_order_relaxed);
      continue;
    }
    const std::size_t bytes = op.encoded ? plan_->codec()->encoded_bytes(range.size())
                                         : range.size() * plan_->element_bytes();
    const lower::Operand& operand = sends ? op.sources[0] : op.destinations[0];
    TUTTI_ASSIGN(std::byte* const data, locate(operand, i, slice));
    if (sends)
      connection.send(stream, tag, {data, bytes}, transfer);
    else
      connection.recv(stream, tag, {data, bytes}, transfer);
  }
  return ok_status();
}

Result<std::byte*> CollectiveRun::locate(const lower::Operand& operand, std::uint32_t piece,
                                         std::uint64_t slice) {
  const auto chunk = [&](const std::byte* buffer) {
    const std::size_t begin = plan_->slice_of(operand.pieces[piece], slice).begin;
    return const_cast<std::byte*>(buffer) + begin * plan_->element_bytes();
  };
  switch (operand.memory) {
    case Memory::kInput:
      return chunk(args_->input);
    case Memory::kOutput:
      return chunk(args_->output);
    case Memory::kScratch: {
      const lower::Program& program = plan_->program();
      const std::uint64_t index =
          (slice % program.scratch_depth) * program.scratch_pieces + operand.pieces[piece];
      return scratch_ + index * plan_->stride();
    }
    case Memory::kSlot:
      return slot_memory(operand, piece, slice);
    case Memory::kPublished:
    case Memory::kPeerOutput:
      break;  // of one-round programs, which run in passes
  }
  TUTTI_CHECK(false, "memory={} in a staged program", name_of(operand.memory));
}

Result<std::byte*> CollectiveRun::slot_memory(const lower::Operand& operand, std::uint32_t piece,
                                              std::uint64_t slice) {
  const lower::Lowered& lowered = plan_->lowered();
  const lower::Program& owner = lowered.programs[operand.owner];
  std::byte* region = own_slots_;
  if (operand.owner != team_.rank()) {
    TUTTI_ASSIGN(region, team_.peer_region(operand.owner));
  }
  const std::uint64_t index = (slice % lowered.slot_depth) * owner.slot_pieces +
                              owner.slots[operand.index].first_piece + operand.pieces[piece];
  return region + index * plan_->stride();
}

// --- running in one round ---

Result<bool> CollectiveRun::run_passes() {
  const std::span<const Pass> passes = plan_->passes();
  const bool direct = plan_->lowered().protocol == Protocol::kDirect;
  for (; op_ < passes.size(); ++op_, place_ = 0) {
    const std::span<const Place> places = plan_->places(passes[op_]);
    if (!skip_owners_in_call(places)) {
      TUTTI_ASSIGN(const bool there, owners_are_there(places));
      if (!there) return false;
    }
    if (direct) TUTTI_TRY(find_buffers(places));
    start_stopwatch();
    TUTTI_TRY(run_pass(passes[op_]));
  }
  return true;
}

/// Moves place_ to the next one whose owner is not seen to have made this call; false when there is
/// one. Short, because a rank that reads from many peers does this for each: the fewer instructions
/// lie between two loads, the more of the peers' lines are on the way at once.
bool CollectiveRun::skip_owners_in_call(std::span<const Place> places) {
  const std::uint64_t call = team_.sequence, hash = args_->call_hash;
  const std::size_t index = call % kEntries;
  const bool fetches_next = places.size() <= kFewPlaces;
  std::uint64_t* const entered = team_.entered.data();
  std::size_t place = place_;
  for (; place < places.size(); ++place) {
    const Rank owner = places[place].owner;
    if (!lower::is_peers_buffer(places[place].memory) || entered[owner] >= call) continue;
    const Entry& entry = team_.member(owner).block->entries[index];
    if (entry.sequence.load(std::memory_order_acquire) != call || entry.call_hash != hash) break;
    entered[owner] = call;
    if (fetches_next) fetch_next(owner);
  }
  place_ = place;
  return place == places.size();
}

/// Whether the peers whose buffers these are have entered; an error when one made another call.
Result<bool> CollectiveRun::owners_are_there(std::span<const Place> places) {
  do {
    TUTTI_ASSIGN(const bool entered, has_entered(places[place_].owner));
    if (!entered) return false;
  } while (!skip_owners_in_call(places));
  return true;
}

Status CollectiveRun::find_buffers(std::span<const Place> places) {
  for (const Place& place : places)
    if (lower::is_peers_buffer(place.memory)) TUTTI_TRY(find_buffers_of(place.owner));
  return ok_status();
}

Status CollectiveRun::run_pass(const Pass& pass) {
  const std::span<const Place> from = plan_->sources(pass), to = plan_->destinations(pass);
  locate_sources(from);
  for (std::size_t d = 0; d < to.size(); ++d)
    destinations_[d] = {locate(to[d]), stores_to(to[d].memory, pass.bytes)};
  const std::span<const std::byte*> sources(sources_.data(), from.size());
  const std::span<Destination> destinations(destinations_.data(), to.size());
  if (plan_->lowered().protocol == Protocol::kDirect)
    return touch_peers(pass, sources, destinations);
  // Published input is scaled already.
  const std::uint64_t scaled = args_->reduction.op == ReduceOp::kPreMulSum ? pass.own_sources : 0;
  combine(sources, scaled, destinations, pass.bytes, pass.completes);
  return ok_status();
}

/// The pass among buffers of peers, of which none may be touched for long. Both spans are used up.
Status CollectiveRun::touch_peers(const Pass& pass, std::span<const std::byte*> sources,
                                  std::span<Destination> destinations) {
  const Place& first = plan_->sources(pass)[0];
  if (first.memory == Memory::kPublished && peers_[first.owner].input == nullptr)
    return read_input(first, destinations[0].data, pass);
  for (std::size_t done = 0; done < pass.bytes; done += kTouchBytes) {
    const std::size_t part = std::min(kTouchBytes, pass.bytes - done);
    const Touch touch(team_.own_block().progress, *team_.member(team_.rank()).places,
                      team_.sequence);
    TUTTI_TRY(check_owners(pass));
    if (team_.abort_word().raised()) return team_.abort_word().error();
    combine(sources, 0, destinations, part, pass.completes);
    for (const std::byte*& source : sources) source += part;
    for (Destination& destination : destinations) destination.data += part;
  }
  return check_owners(pass);
}

/// Copies from where a peer's input lies in its process, through the kernel.
Status CollectiveRun::read_input(const Place& source, std::byte* to, const Pass& pass) {
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
Status CollectiveRun::check_owners(const Pass& pass) const {
  order_loads();
  for (const Place& place : plan_->places(pass)) {
    if (!lower::is_peers_buffer(place.memory)) continue;
    const Member& owner = team_.member(place.owner);
    if (owner.block->progress.gave_up.load() != 0)
      return peer_error(Code::kAborted, place.owner,  // for a reason that is on its way
                        "{} gave up while its buffers were in use: see its own error", owner.label);
  }
  return ok_status();
}

void CollectiveRun::locate_sources(std::span<const Place> places) {
  const bool publishes = plan_->lowered().protocol == Protocol::kPublished;
  const std::byte** const sources = sources_.data();
  for (std::size_t s = 0; s < places.size(); ++s) {
    const Place& place = places[s];
    if (publishes && place.memory == Memory::kPublished)
      sources[s] = published_at_.in(*team_.member(place.owner).block, place.holder) + place.offset;
    else
      sources[s] = locate(place);
  }
}

/// All but what kPublished programs publish.
std::byte* CollectiveRun::locate(const Place& place) const {
  const auto at = [&](const std::byte* buffer) {
    return buffer == nullptr ? nullptr : const_cast<std::byte*>(buffer) + place.offset;
  };
  switch (place.memory) {
    case Memory::kInput:
      return at(args_->input);
    case Memory::kOutput:
      return at(args_->output);
    case Memory::kPublished:
      return at(peers_[place.owner].input);
    case Memory::kPeerOutput:
      return at(peers_[place.owner].output);
    case Memory::kScratch:
    case Memory::kSlot:
      break;  // of staged programs
  }
  return nullptr;
}

}  // namespace tutti::exec
