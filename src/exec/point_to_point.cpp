#include "src/exec/point_to_point.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/exec/caption.hpp"
#include "src/exec/store_choice.hpp"
#include "src/reduce/reduce.hpp"

namespace tutti::exec {
namespace {

// Behind a connection; see src/wire/message_engine.hpp, "eager".
constexpr std::size_t kNeedsNoReceiver = 64 << 10;
constexpr Lane kPointToPointLane = 0x3fff;
constexpr std::size_t kSlotStride = sizeof(SlotHeader) + kMailSlotBytes + sizeof(Caption);
constexpr std::size_t kCaptionOffset = kSlotStride - sizeof(Caption);

std::size_t mail_bytes(std::int32_t size) { return (sizeof(Outbox) + sizeof(Inbox)) * size; }
Outbox& outbox(std::byte* mail, Rank destination) {
  return reinterpret_cast<Outbox*>(mail)[destination];
}
Inbox& inbox(std::byte* mail, std::int32_t size, Rank source) {
  return reinterpret_cast<Inbox*>(mail + sizeof(Outbox) * size)[source];
}

/// What both ends of a message must agree on.
bool fit(const CallSignature& send, const CallSignature& recv) {
  return send.type == recv.type && send.count == recv.count && send.compression == recv.compression;
}

}  // namespace

PointToPointRun::PointToPointRun(Team& team)
    : team_(team),
      slots_(team.size(), nullptr),
      peer_mail_(team.size(), nullptr),
      published_(team.size(), 0),
      consumed_(team.size(), 0),
      messages_sent_(team.size(), 0),
      messages_received_(team.size(), 0) {}

Status PointToPointRun::start(std::span<const PointToPoint> transfers) {
  jobs_.clear();
  jobs_.reserve(transfers.size());
  bool mapped = false;
  for (const PointToPoint& what : transfers) {
    Job job;
    job.what = what;
    if (what.peer != team_.rank()) {
      job.message = what.sends ? messages_sent_[what.peer]++ : messages_received_[what.peer]++;
      mapped |= team_.member(what.peer).block != nullptr;
      if (team_.member(what.peer).block == nullptr) job.transfer = std::make_unique<Transfer>();
    }
    jobs_.push_back(std::move(job));
  }
  queue_up();
  if (mapped) TUTTI_TRY(open_mail());
  return copy_to_self();
}

/// Chains the jobs of each peer and direction; the first of each may move at once.
void PointToPointRun::queue_up() {
  heads_.clear();
  moved_ = true;
  std::vector<std::uint32_t> last(2 * static_cast<std::size_t>(team_.size()), kNone);
  for (std::uint32_t i = 0; i < jobs_.size(); ++i) {
    const PointToPoint& what = jobs_[i].what;
    if (what.peer == team_.rank()) continue;
    std::uint32_t& before = last[2 * static_cast<std::size_t>(what.peer) + (what.sends ? 1 : 0)];
    if (before == kNone)
      heads_.push_back(i);
    else
      jobs_[before].next = i;
    before = i;
  }
}

Status PointToPointRun::copy_to_self() {
  std::vector<Job*> sends, receives;
  for (Job& job : jobs_)
    if (job.what.peer == team_.rank()) (job.what.sends ? sends : receives).push_back(&job);
  TUTTI_CHECK(sends.size() == receives.size(), "sends={} receives={}", sends.size(),
              receives.size());
  for (std::size_t i = 0; i < sends.size(); ++i) {
    const PointToPoint& from = sends[i]->what;
    const PointToPoint& to = receives[i]->what;
    TUTTI_CHECK(fit(from.call, to.call) && from.bytes == to.bytes, "{} meets {}",
                describe(from.call), describe(to.call));
    if (from.bytes > 0) std::memmove(to.data, from.data, from.bytes);
    sends[i]->done = receives[i]->done = true;
  }
  return ok_status();
}

Result<Poll> PointToPointRun::poll() {
  if (team_.abort_word().raised()) return team_.abort_word().error();
  for (bool moved = true; moved && !heads_.empty();) {
    TUTTI_ASSIGN(moved, sweep());
    moved_ |= moved;
  }
  if (heads_.empty()) return team_.flushed() ? Poll::kDone : Poll::kPending;
  team_.waits().blocked_on_any(jobs_[heads_.front()].what.peer, waits_,
                               std::exchange(moved_, false));
  team_.progress_connections();
  return Poll::kPending;
}

Status PointToPointRun::check_peers() {
  std::vector<bool> gone(team_.size());
  for (const Job& job : jobs_)
    if (!job.done && team_.has_left(job.what.peer)) gone[job.what.peer] = true;
  if (std::ranges::find(gone, true) == gone.end()) return ok_status();
  TUTTI_TRY(poll());  // sees whatever they did before they left
  for (const Job& job : jobs_)
    if (!job.done && gone[job.what.peer]) return team_.left_error(job.what.peer);
  return ok_status();
}

std::vector<PointToPointRun::Awaited> PointToPointRun::awaited() const {
  std::vector<Awaited> all;
  for (const std::uint32_t head : heads_) {
    const Job* last = &jobs_[head];
    while (last->next != kNone) last = &jobs_[last->next];
    const bool is_eager = last->what.sends && !last->what.for_devices &&
                          last->what.bytes <= kNeedsNoReceiver &&
                          team_.member(last->what.peer).block == nullptr;
    if (!is_eager)
      all.push_back({last->what.peer, last->what.sends, last->message, last->what.call});
  }
  return all;
}

/// Moves the oldest unfinished transfer of each peer and direction, and at once those behind it.
/// Returns whether any moved.
Result<bool> PointToPointRun::sweep() {
  waits_.clear();
  bool moved = false;
  for (std::size_t i = 0; i < heads_.size();) {
    Job& job = jobs_[heads_[i]];
    TUTTI_ASSIGN(const bool advanced, advance(job));
    moved |= advanced;
    if (!job.done) {
      ++i;
    } else if (job.next != kNone) {
      heads_[i] = job.next;
    } else {
      heads_[i] = heads_.back();
      heads_.pop_back();
    }
  }
  return moved;
}

Result<bool> PointToPointRun::advance(Job& job) {
  if (team_.member(job.what.peer).block == nullptr) return move_remote(job);
  return job.what.sends ? send_mapped(job) : recv_mapped(job);
}

// --- mapped peers ---

Status PointToPointRun::open_mail() {
  if (mail_ != nullptr) return ok_status();
  TUTTI_ASSIGN(mail_, team_.allocate_shared(mail_bytes(team_.size())));
  Progress& progress = team_.own_block().progress;
  progress.mail_offset.store(announce(team_.offset_of(mail_)), std::memory_order_release);
  wake_sleepers(progress.mail_offset, progress.sleepers);
  return ok_status();
}

/// Null while the peer has not opened its mail.
Result<std::byte*> PointToPointRun::peer_mail(Rank peer) {
  if (peer_mail_[peer] == nullptr) {
    const std::uint64_t announced =
        team_.member(peer).block->progress.mail_offset.load(std::memory_order_acquire);
    if (announced == 0) return static_cast<std::byte*>(nullptr);
    TUTTI_ASSIGN(peer_mail_[peer], memory_of(team_.member(peer), peer, announced_offset(announced),
                                             mail_bytes(team_.size())));
  }
  return peer_mail_[peer];
}

Result<std::byte*> PointToPointRun::own_slots(Rank peer) {
  if (slots_[peer] == nullptr) {
    TUTTI_ASSIGN(slots_[peer], team_.allocate_shared(kMailSlots * kSlotStride));
    outbox(mail_, peer)
        .slots_offset.store(announce(team_.offset_of(slots_[peer])), std::memory_order_release);
  }
  return slots_[peer];
}

Result<const std::byte*> PointToPointRun::peer_slots(Rank peer, std::uint64_t announced) {
  TUTTI_ASSIGN(
      const std::byte* const slots,
      memory_of(team_.member(peer), peer, announced_offset(announced), kMailSlots * kSlotStride));
  return slots;
}

Result<bool> PointToPointRun::send_mapped(Job& job) {
  const Rank peer = job.what.peer;
  TUTTI_ASSIGN(std::byte* const theirs, peer_mail(peer));
  RankBlock& own = team_.own_block();
  RankBlock* block = team_.member(peer).block;
  bool moved = false;
  while (!job.done) {
    std::uint64_t taken = 0;
    if (theirs != nullptr)
      taken = inbox(theirs, team_.size(), team_.rank()).consumed.load(std::memory_order_acquire);
    if (published_[peer] - taken >= kMailSlots) {
      const std::atomic<std::uint64_t>& awaited =
          theirs == nullptr ? block->progress.mail_offset
                            : inbox(theirs, team_.size(), team_.rank()).consumed;
      waits_.push_back({&awaited, taken, &block->progress.sleepers});
      return moved;
    }
    TUTTI_ASSIGN(std::byte* const slots, own_slots(peer));
    std::byte* const slot = slots + (published_[peer] % kMailSlots) * kSlotStride;
    auto* const header = reinterpret_cast<SlotHeader*>(slot);
    header->message = job.message;
    header->call = job.what.call;
    if (job.moved == 0 && !job.what.caption.empty())
      write_caption(*reinterpret_cast<Caption*>(slot + kCaptionOffset), job.what.caption);
    const std::size_t bytes = std::min(kMailSlotBytes, job.what.bytes - job.moved);
    const Destination to{slot + sizeof(SlotHeader),
                         bytes >= kStreamFrom && team_.options().stores.slots
                             ? Stores::kNonTemporal
                             : team_.stores_for_peers()};
    if (bytes > 0) copy_bytes(job.what.data + job.moved, {&to, 1}, bytes);
    std::atomic<std::uint64_t>& published = outbox(mail_, peer).published;
    published.store(++published_[peer], std::memory_order_release);
    wake_sleepers(published, own.progress.sleepers);
    job.moved += bytes;
    job.done = job.moved == job.what.bytes;
    moved = true;
  }
  return moved;
}

Result<bool> PointToPointRun::recv_mapped(Job& job) {
  const Rank peer = job.what.peer;
  RankBlock* block = team_.member(peer).block;
  TUTTI_ASSIGN(std::byte* const theirs, peer_mail(peer));
  if (theirs == nullptr) {
    waits_.push_back({&block->progress.mail_offset, 0, &block->progress.sleepers});
    return false;
  }
  Outbox& out = outbox(theirs, team_.rank());
  bool moved = false;
  while (!job.done) {
    const std::uint64_t published = out.published.load(std::memory_order_acquire);
    if (published <= consumed_[peer]) {
      waits_.push_back({&out.published, published, &block->progress.sleepers});
      return moved;
    }
    TUTTI_ASSIGN(const std::byte* const slots,
                 peer_slots(peer, out.slots_offset.load(std::memory_order_acquire)));
    const std::byte* const slot = slots + (consumed_[peer] % kMailSlots) * kSlotStride;
    SlotHeader header;  // a peer's copy, taken once
    std::memcpy(&header, slot, sizeof header);
    if (header.message != job.message || !fit(header.call, job.what.call))
      return mismatch(job, header, *reinterpret_cast<const Caption*>(slot + kCaptionOffset));
    const std::size_t bytes = std::min(kMailSlotBytes, job.what.bytes - job.moved);
    const Destination to{job.what.data + job.moved, Stores::kCached};
    if (bytes > 0) copy_bytes(slot + sizeof(SlotHeader), {&to, 1}, bytes);
    std::atomic<std::uint64_t>& consumed = inbox(mail_, team_.size(), peer).consumed;
    consumed.store(++consumed_[peer], std::memory_order_release);
    wake_sleepers(consumed, team_.own_block().progress.sleepers);
    job.moved += bytes;
    job.done = job.moved == job.what.bytes;
    moved = true;
  }
  return moved;
}

/// What arrived is not what `job` receives; `header` is a copy, `caption` the peer's memory.
Error PointToPointRun::mismatch(const Job& job, const SlotHeader& header,
                                const Caption& caption) const {
  const Rank peer = job.what.peer;
  CallSignature sent = header.call;
  sent.collective = Collective::kSend;
  if (static_cast<int>(sent.type) >= kDataTypes) sent.type = DataType::kInt8;
  return peer_error(Code::kInvalidUsage, peer,
                    "{} receives {} as message {} from {}, which sends {} as message {}: both "
                    "sides must name the same type, count and compression",
                    team_.member(team_.rank()).label, shown(job.what.call, job.what.caption),
                    job.message, team_.member(peer).label, shown(sent, read_caption(caption)),
                    header.message);
}

// --- peers behind a connection ---

StreamId PointToPointRun::stream_of(const Job& job) const {
  const Rank self = team_.rank();
  const Lane lane = job.what.for_devices ? kDeviceLanes | kPointToPointLane : kPointToPointLane;
  return {team_.options().communicator, job.what.sends ? self : job.what.peer,
          job.what.sends ? job.what.peer : self, lane};
}

Result<bool> PointToPointRun::move_remote(Job& job) {
  Connection& connection = *team_.member(job.what.peer).connection;
  if (!job.posted) {
    MessageTag tag{job.message, job.what.call};
    tag.call.collective = Collective::kSend;  // what both ends must agree on
    tag.call.root = stream_of(job).destination;
    const std::span<std::byte> data(job.what.data, job.what.bytes);
    job.transfer->device_memory = job.what.device_memory;
    if (job.what.sends)
      connection.send(stream_of(job), tag, data, *job.transfer);
    else
      connection.recv(stream_of(job), tag, data, *job.transfer);
    job.posted = true;
  }
  const Transfer::State state = job.transfer->state.load(std::memory_order_acquire);
  if (state == Transfer::State::kFailed) {
    Error error = job.transfer->error;
    if (!job.what.caption.empty()) error.what += fmt::format(" (here: {})", job.what.caption);
    return error;
  }
  job.done = state == Transfer::State::kDone;
  return job.done;
}

void PointToPointRun::cancel() {
  for (Job& job : jobs_)
    if (job.posted && !job.done)
      team_.member(job.what.peer).connection->cancel(stream_of(job), *job.transfer);
  jobs_.clear();
  heads_.clear();
}

}  // namespace tutti::exec
