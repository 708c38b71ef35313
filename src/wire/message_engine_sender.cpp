#include "src/wire/message_engine_sender.hpp"

#include <algorithm>

#include "src/base/result.hpp"

namespace tutti {
namespace {

Error no_cpu_reads(const StreamId& id, const Posted& post) {
  return make_error(Code::kUnavailable,
                    "the {} bytes at {} that go to rank {} are a GPU's, and that rank shows no "
                    "registered memory for them: register the buffer that receives them, too, or "
                    "set TUTTI_GPUDIRECT=0",
                    post.bytes, static_cast<const void*>(post.data), id.destination);
}

}  // namespace

// Most messages are of the same stream as the one before.
MessageSender::Stream& MessageSender::stream(const StreamId& id) {
  if (latest_ == nullptr || latest_->id != id) latest_ = &find_or_create(id);
  return *latest_;
}

[[gnu::noinline]] MessageSender::Stream& MessageSender::find_or_create(const StreamId& id) {
  const auto found = streams_.find(id);
  if (found != streams_.end()) return found->second;
  if (streams_.size() >= forget_at_) forget_idle_streams();
  Stream& created = streams_[id];
  created.id = id;
  created.next_message = highest_message_ + 2 * kMessageEpoch;
  return created;
}

// An idle stream holds nothing that the next message of the stream needs.
[[gnu::noinline]] void MessageSender::forget_idle_streams() {
  latest_ = nullptr;
  std::erase_if(streams_, [this](const auto& entry) {
    const Stream& stream = entry.second;
    return stream.queue.empty() && stream.unmatched == 0 && stream.early.empty() &&
           !stream.working && !stream.broken && !is_sending(stream);
  });
  forget_at_ = std::max<std::size_t>(forget_at_, 2 * streams_.size());
}

void MessageSender::post(const StreamId& id, const MessageTag& tag, std::span<const std::byte> data,
                         Transfer& transfer) {
  start_pending(transfer, tag, data.data(), data.size());
  if (closed_) return end_failed(transfer, *closed_);
  Stream& to = stream(id);
  if (to.broken) return end_failed(transfer, to.broken->error);
  to.queue.push_back(transfer);
  if (to.unannounced == nullptr) to.unannounced = &transfer;
  schedule(to);
}

bool MessageSender::cancel(const StreamId& id, Transfer& transfer) {
  const auto found = streams_.find(id);
  if (found == streams_.end() || !found->second.queue.contains(transfer)) return false;
  const Posted& post = posted(transfer);
  give_up(
      found->second, post,
      make_error(Code::kAborted, "this rank cancelled its send of {} as operation {} to rank {}",
                 describe(post.tag.call), post.tag.sequence, id.destination));
  return true;
}

/// Ends the stream because of a send of this side.
[[gnu::noinline]] void MessageSender::give_up(Stream& stream, const Posted& post, Error why) {
  Frame notice = frame_for(FrameType::kBreak, stream.id, post);
  notice.reason = BreakReason::kSendCancelled;
  break_stream(
      stream,
      Broken{.error = std::move(why), .notice = notice, .offender = std::nullopt, .notify = true});
}

[[gnu::noinline]] void MessageSender::break_stream(Stream& stream, Broken broken) {
  for (Transfer* transfer = stream.queue.front(); transfer != nullptr; transfer = transfer->next)
    for (Outbox* out : outs_) out->detach(*transfer);
  for (Tail& tail : tails_)
    if (tail.stream == &stream) tail = {};
  stop_puts(stream.queue);
  fail_all(stream.queue, broken.error);
  stream.unannounced = nullptr;
  stream.cleared = 0;
  stream.broken = std::make_unique<Broken>(std::move(broken));
  schedule(stream);
}

void MessageSender::schedule(Stream& stream) {
  if (stream.working) return;
  const bool has_work = stream.broken ? stream.broken->notify
                                      : stream.cleared > 0 || (stream.unannounced != nullptr &&
                                                               stream.unmatched < kStreamWindow);
  if (!has_work) return;
  stream.working = true;
  work_.push_back(stream);
}

MessageSender::Stream& MessageSender::take_turn() {
  if (shuffle_)
    for (auto turns = random_() % 4; turns > 0; --turns) work_.push_back(work_.pop_front());
  Stream& stream = work_.pop_front();
  stream.working = false;
  return stream;
}

// Announcing comes before data, so that the receiver can clear the next message in good time.
bool MessageSender::produce() {
  while (!work_.empty()) {
    Stream& turn = take_turn();
    if (turn.broken) {
      if (!turn.broken->notify) continue;
      add_break(*outs_[0], *turn.broken);
      return true;
    }
    const bool produced = announce(turn) || send_chunk(turn, 0);
    schedule(turn);
    if (produced) return true;
  }
  return false;
}

bool MessageSender::produce_chunk(std::size_t link) {
  const Stream* requeued = nullptr;  // the first of those that had work, and none for this link
  while (!work_.empty() && work_.front() != requeued) {
    Stream& turn = work_.pop_front();
    turn.working = false;
    const bool produced = !turn.broken && send_chunk(turn, link);
    schedule(turn);
    if (produced) return true;
    if (turn.working && requeued == nullptr) requeued = &turn;
  }
  return false;
}

bool MessageSender::announce(Stream& stream) {
  if (stream.unannounced == nullptr || stream.unmatched >= kStreamWindow) return false;
  Transfer& transfer = *std::exchange(stream.unannounced, stream.unannounced->next);
  Posted& post = posted(transfer);
  post.message = stream.next_message++;
  highest_message_ = std::max(highest_message_, post.message);
  if (const auto early = take_early(stream, post)) {
    clear(stream, transfer, early->key);
    return false;
  }
  ++stream.unmatched;
  const bool eager = !is_announced(stream.id, post.bytes, eager_limit_) &&
                     credits_ + credits_of(post.bytes) <= kConnectionCredits;
  Frame frame = frame_for(eager ? FrameType::kEager : FrameType::kReadyToSend, stream.id, post);
  if (eager) {
    announce_eager(stream, transfer, frame);
  } else {
    post.phase = Phase::kAnnounced;
    outs_[0]->add(frame);
  }
  return true;
}

[[gnu::noinline]] std::optional<MessageSender::EarlyClear> MessageSender::take_early(
    Stream& stream, const Posted& post) {
  while (!stream.early.empty() && stream.early.front().frame.message < post.message)
    stream.early.pop_front();
  if (stream.early.empty() || stream.early.front().frame.message != post.message) return {};
  EarlyClear early = std::move(stream.early.front());
  stream.early.pop_front();
  if (!agree(post.tag, post.bytes, early.frame.tag, early.frame.bytes)) return {};
  return early;
}

void MessageSender::announce_eager(Stream& stream, Transfer& transfer, Frame& frame) {
  Posted& post = posted(transfer);
  ++stream.eagers;
  stream.credits += credits_of(post.bytes);
  credits_ += credits_of(post.bytes);
  post.phase = Phase::kMoving;
  frame.payload = static_cast<std::uint32_t>(post.bytes);
  if (outs_[0]->add(frame, std::span(post.data, post.bytes), &transfer)) {
    post.phase = Phase::kFinished;
    complete_in_order(stream.queue);
  } else {
    tails_[0] = {&stream, post.bytes};
  }
}

// What cannot be put, for want of registered memory, takes the stream, unless it is a GPU's.
[[gnu::noinline]] void MessageSender::clear(Stream& stream, Transfer& transfer,
                                            std::span<const std::byte> key) {
  Posted& post = posted(transfer);
  std::optional<Error> why_not;
  if (!key.empty() && puts_ != nullptr) {
    putting_[&transfer] = &stream;
    const Status put = puts_->put(key, {post.data, post.bytes}, &transfer);
    if (put) {
      post.phase = Phase::kMoving;
      post.assigned = post.bytes;
      return;
    }
    putting_.erase(&transfer);
    why_not = put.error();
  }
  if (transfer.device_memory) {
    // Where the receiver has given up, it says why: that is on its way.
    post.phase = Phase::kMoving;
    if (why_not && why_not->code == Code::kAborted) return;
    return give_up(stream, post, why_not ? *std::move(why_not) : no_cpu_reads(stream.id, post));
  }
  post.phase = Phase::kCleared;
  ++stream.cleared;
}

void MessageSender::on_put_done(Transfer& transfer) {
  const auto found = putting_.find(&transfer);
  if (found == putting_.end()) return;
  Stream& stream = *found->second;
  putting_.erase(found);
  moved(stream, transfer, posted(transfer).bytes);
  schedule(stream);
}

/// Data of these is no longer read.
[[gnu::noinline]] void MessageSender::stop_puts(Fifo<Transfer>& queue) {
  if (putting_.empty()) return;
  for (Transfer* transfer = queue.front(); transfer != nullptr; transfer = transfer->next)
    if (putting_.erase(transfer) > 0) puts_->cancel(transfer);
}

[[gnu::noinline]] bool MessageSender::send_chunk(Stream& stream, std::size_t link) {
  if (stream.cleared == 0) return false;
  // A receiver looks at the other links for what is too long to be eager.
  const std::size_t least = link == 0 ? 0 : eager_limit_ + 1;
  Transfer* transfer = stream.queue.front();
  while (transfer != nullptr &&
         (posted(*transfer).phase != Phase::kCleared || posted(*transfer).bytes < least))
    transfer = transfer->next;
  if (transfer == nullptr) return false;
  Posted& post = posted(*transfer);
  const std::size_t chunk = std::min<std::uint64_t>(kChunkBytes, post.bytes - post.assigned);
  Frame frame = frame_for(FrameType::kData, stream.id, post);
  frame.offset = post.assigned;
  frame.payload = static_cast<std::uint32_t>(chunk);
  const std::span<const std::byte> payload(post.data + post.assigned, chunk);
  post.assigned += chunk;
  if (post.assigned == post.bytes) {
    post.phase = Phase::kMoving;
    --stream.cleared;
  }
  if (outs_[link]->add(frame, payload, transfer))
    moved(stream, *transfer, chunk);
  else
    tails_[link] = {&stream, chunk};
  return true;
}

void MessageSender::tail_sent(std::size_t link, Transfer& transfer) {
  const Tail tail = std::exchange(tails_[link], {});
  moved(*tail.stream, transfer, tail.bytes);
  schedule(*tail.stream);
}

bool MessageSender::is_sending(const Stream& stream) const {
  return std::ranges::any_of(tails_, [&](const Tail& tail) { return tail.stream == &stream; });
}

void MessageSender::moved(Stream& stream, Transfer& transfer, std::size_t bytes) {
  Posted& post = posted(transfer);
  post.moved += bytes;
  if (post.moved < post.bytes) return;
  post.phase = Phase::kFinished;
  complete_in_order(stream.queue);
}

// The CTS may cross the announcement, or the message itself if that is eager. The stream may be
// unknown here, because this side has forgotten it.
[[gnu::noinline]] Status MessageSender::on_clear_to_send(const Frame& frame,
                                                         std::span<const std::byte> key) {
  const auto found = streams_.find(frame.stream);
  if (found == streams_.end() || found->second.broken) return ok_status();
  Stream& stream = found->second;
  if (frame.message >= stream.next_message) return clear_early(stream, frame, key);
  Transfer* transfer = stream.queue.front();
  while (transfer != nullptr && (posted(*transfer).phase != Phase::kAnnounced ||
                                 posted(*transfer).message != frame.message))
    transfer = transfer->next;
  if (transfer == nullptr) return ok_status();
  Posted& post = posted(*transfer);
  if (!agree(post.tag, post.bytes, frame.tag, frame.bytes)) return ok_status();  // it will break
  --stream.unmatched;
  if (post.bytes == 0)
    moved(stream, *transfer, 0);
  else
    clear(stream, *transfer, key);
  schedule(stream);
  return ok_status();
}

[[gnu::noinline]] Status MessageSender::clear_early(Stream& stream, const Frame& frame,
                                                    std::span<const std::byte> key) {
  const bool in_order = stream.early.empty() || stream.early.back().frame.message < frame.message;
  if (!in_order || frame.message - stream.next_message >= kStreamWindow)
    return make_error(Code::kPeerFailed, "message {} was cleared out of order", frame.message);
  stream.early.push_back({frame, {key.begin(), key.end()}});
  return ok_status();
}

[[gnu::noinline]] Status MessageSender::on_credit(const Frame& frame) {
  const auto found = streams_.find(frame.stream);
  if (found == streams_.end() || frame.offset > found->second.eagers ||
      frame.bytes > found->second.credits)
    return make_error(
        Code::kPeerFailed, "{} credits for {} messages came back for a stream that used {} for {}",
        frame.bytes, frame.offset, found == streams_.end() ? 0 : found->second.credits,
        found == streams_.end() ? 0 : found->second.eagers);
  const auto messages = static_cast<std::uint32_t>(frame.offset);
  const auto credits = static_cast<std::uint32_t>(frame.bytes);
  Stream& stream = found->second;
  stream.eagers -= messages;
  stream.unmatched -= messages;
  stream.credits -= credits;
  credits_ -= credits;
  schedule(stream);
  return ok_status();
}

[[gnu::noinline]] Status MessageSender::on_break(const Frame& frame,
                                                 const std::optional<Frame>& offender) {
  const auto found = streams_.find(frame.stream);
  if (found == streams_.end() && streams_.size() >= kMaxPeerStreams)
    return make_error(Code::kPeerFailed, "more than {} streams", kMaxPeerStreams);
  Stream& broken = stream(frame.stream);
  if (broken.broken) return ok_status();
  const Rank blamed = frame.stream.destination;
  break_stream(broken, Broken{.error = offender ? mismatch_error(*offender, frame, blamed)
                                                : cancelled_error(frame, blamed),
                              .notice = frame,
                              .offender = std::nullopt});
  return ok_status();
}

void MessageSender::close(const Error& error) {
  closed_ = error;
  for (Outbox* out : outs_) out->detach_tail();
  std::ranges::fill(tails_, Tail{});
  for (auto& [id, stream] : streams_) {
    stop_puts(stream.queue);
    fail_all(stream.queue, error);
  }
  latest_ = nullptr;
  streams_.clear();
  work_ = {};
}

}  // namespace tutti
