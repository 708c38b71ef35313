#include "src/wire/message_engine_receiver.hpp"

#include <algorithm>

#include "src/base/result.hpp"

namespace tutti {
namespace {

// Messages of a stream, and credits of all streams, that are worth a frame of their own; below that
// they wait for company. The sender has at least half of its window left when they go.
constexpr std::uint32_t kLazyMessages = kStreamWindow / 4;
constexpr std::uint32_t kPressingMessages = kStreamWindow / 2;
constexpr std::uint32_t kPressingCreditsInAll = kConnectionCredits / 4;

Error no_cpu_writes(const Posted& post, Rank source) {
  return make_error(
      Code::kUnavailable,
      "the {} bytes at {} that receive from rank {} are a GPU's, and no NIC can write "
      "them: one of the two buffers is not registered (deregister only what no call "
      "uses any more), or more than 1,024 receives were given up; TUTTI_GPUDIRECT=0 "
      "goes by memory of the host",
      post.bytes, static_cast<const void*>(post.data), source);
}

bool is_unmatched(Transfer& transfer) {
  const Phase phase = posted(transfer).phase;
  return phase == Phase::kQueued || phase == Phase::kClearedEarly;
}

}  // namespace

bool MessageReceiver::is_announced(const Stream& stream, Transfer& transfer) const {
  return tutti::is_announced(stream.id, posted(transfer).bytes, eager_limit_);
}

// Whether its data may come by any link.
bool MessageReceiver::is_expected(const Stream& stream, Transfer& transfer) const {
  const Phase phase = posted(transfer).phase;
  return phase == Phase::kClearedEarly ||
         (phase == Phase::kMoving && is_announced(stream, transfer));
}

// Most messages are of the same stream as the one before.
MessageReceiver::Stream& MessageReceiver::stream(const StreamId& id) {
  if (latest_ == nullptr || latest_->id != id) latest_ = &find_or_create(id);
  return *latest_;
}

[[gnu::noinline]] MessageReceiver::Stream& MessageReceiver::find_or_create(const StreamId& id) {
  const auto found = streams_.find(id);
  if (found != streams_.end()) return found->second;
  if (streams_.size() >= forget_at_) forget_idle_streams();
  Stream& created = streams_[id];
  created.id = id;
  return created;
}

Result<MessageReceiver::Stream*> MessageReceiver::stream_of_peer(const StreamId& id) {
  if (streams_.size() >= kMaxPeerStreams && !streams_.contains(id))
    return make_error(Code::kPeerFailed, "more than {} streams", kMaxPeerStreams);
  return &stream(id);
}

// Those that owe credits pay first, so that the next round can forget them, here and there.
void MessageReceiver::forget_idle_streams() {
  latest_ = nullptr;
  for (auto& [id, stream] : streams_)
    if (stream.owed > 0) press(stream);
  std::erase_if(streams_, [this](const auto& entry) {
    const Stream& stream = entry.second;
    return stream.queue.empty() && stream.announced.empty() && stream.owed == 0 &&
           !stream.pressing && !stream.waiting && !stream.broken && !is_landing(stream);
  });
  forget_at_ = std::max<std::size_t>(forget_at_, 2 * streams_.size());
}

Status MessageReceiver::post(const StreamId& id, const MessageTag& tag, std::span<std::byte> data,
                             Transfer& transfer) {
  start_pending(transfer, tag, data.data(), data.size());
  Stream& from = stream(id);
  from.queue.push_back(transfer);
  if (from.next_message != 0) posted(transfer).message = from.next_message++;
  if (from.unmatched == nullptr) from.unmatched = &transfer;
  if (from.early_candidate == nullptr) from.early_candidate = &transfer;
  return match(from);
}

bool MessageReceiver::cancel(const StreamId& id, Transfer& transfer) {
  const auto found = streams_.find(id);
  if (found == streams_.end() || !found->second.queue.contains(transfer)) return false;
  const Posted& post = posted(transfer);
  give_up(found->second, post,
          make_error(Code::kAborted,
                     "this rank cancelled its receive of {} as operation {} from rank {}",
                     describe(post.tag.call), post.tag.sequence, id.source));
  return true;
}

/// Ends the stream because of a receive of this side.
[[gnu::noinline]] void MessageReceiver::give_up(Stream& stream, const Posted& post, Error why) {
  Frame notice = frame_for(FrameType::kBreak, stream.id, post);
  notice.reason = BreakReason::kRecvCancelled;
  break_stream(
      stream,
      Broken{.error = std::move(why), .notice = notice, .offender = std::nullopt, .notify = true});
}

// --- what arrives ---

Status MessageReceiver::on_eager(const Frame& frame) {
  TUTTI_ASSIGN(Stream* const stream, stream_of_peer(frame.stream));
  if (is_for_devices(frame.stream) && frame.bytes > 0)
    return make_error(Code::kPeerFailed, "{} bytes that it has to announce", frame.bytes);
  landings_[0] = {.stream = stream, .eager = true};
  if (stream->broken) return ok_status();
  if (!stream->announced.empty()) return keep(*stream, frame);
  TUTTI_ASSIGN(const Transfer* const wanted, receive_for(*stream, frame.message));
  if (wanted == nullptr) return keep(*stream, frame);
  const Accepted accepted = accept(*stream, frame);
  if (accepted.transfer == nullptr) return ok_status();
  landings_[0].transfer = accepted.transfer;
  landings_[0].data = posted(*accepted.transfer).data;
  if (next_to_clear_early(*stream) != nullptr) press(*stream);
  return ok_status();
}

[[gnu::noinline]] Status MessageReceiver::keep(Stream& stream, const Frame& frame) {
  const bool eager = frame.type == FrameType::kEager;
  if (stream.announced_count >= kStreamWindow ||
      (eager && kept_credits_ + credits_of(frame.bytes) > kConnectionCredits))
    return make_error(Code::kPeerFailed, "more messages than the receiver gave credit for");
  Announced& message = take_announced();
  message.frame = frame;
  if (eager) {
    kept_credits_ += credits_of(frame.bytes);
    message.data = std::make_unique_for_overwrite<std::byte[]>(frame.bytes);
    message.complete = false;
    landings_[0].announced = &message;
    landings_[0].data = message.data.get();
  }
  ++stream.announced_count;
  stream.announced.push_back(message);
  return ok_status();
}

[[gnu::noinline]] Status MessageReceiver::on_ready_to_send(const Frame& frame) {
  TUTTI_ASSIGN(Stream* const stream, stream_of_peer(frame.stream));
  if (stream->broken || was_matched(*stream, frame.message)) return ok_status();
  TUTTI_TRY(keep(*stream, frame));
  return match(*stream);
}

// Chunks of a message come in any order. They lie on a grid, so those that are told apart do not
// overlap, and all together are as long as the message: a peer that sends one twice spoils its own
// data and nothing else.
[[gnu::noinline]] Status MessageReceiver::on_data(std::size_t link, const Frame& frame) {
  const auto found = streams_.find(frame.stream);
  if (found == streams_.end())
    return make_error(Code::kPeerFailed, "data of a stream without messages");
  Stream& stream = found->second;
  landings_[link] = {.stream = &stream};
  if (stream.broken) return ok_status();
  TUTTI_TRY(accept_cleared_early(stream, frame));
  Transfer* transfer = stream.queue.front();
  while (transfer != nullptr &&
         (posted(*transfer).phase != Phase::kMoving || posted(*transfer).message != frame.message))
    transfer = transfer->next;
  if (transfer == nullptr || posted(*transfer).bytes != frame.bytes ||
      frame.payload > frame.bytes - posted(*transfer).assigned)
    return make_error(Code::kPeerFailed, "data of message {} at {} of {} bytes was not cleared",
                      frame.message, frame.offset, frame.bytes);
  if (transfer->device_memory) {
    give_up(stream, posted(*transfer), no_cpu_writes(posted(*transfer), stream.id.source));
    landings_[link] = {.stream = &stream};
    return ok_status();
  }
  release_target(*transfer);
  posted(*transfer).assigned += frame.payload;
  landings_[link].transfer = transfer;
  landings_[link].data = posted(*transfer).data + frame.offset;
  return ok_status();
}

// Data of a message that was cleared before it was announced stands for the announcement.
Status MessageReceiver::accept_cleared_early(Stream& stream, const Frame& frame) {
  Transfer* transfer = stream.unmatched;
  while (transfer != nullptr && (posted(*transfer).phase != Phase::kClearedEarly ||
                                 posted(*transfer).message != frame.message))
    transfer = transfer->next;
  if (transfer == nullptr) return ok_status();
  Posted& post = posted(*transfer);
  if (!agree(frame.tag, frame.bytes, post.tag, post.bytes))
    return make_error(Code::kPeerFailed,
                      "data of message {}, which is not the one that was cleared", frame.message);
  post.phase = Phase::kMoving;
  skip_matched(stream);
  if (next_to_clear_early(stream) != nullptr) press(stream);
  return ok_status();
}

bool MessageReceiver::is_landing(const Stream& stream) const {
  return std::ranges::any_of(landings_,
                             [&](const Landing& landing) { return landing.stream == &stream; });
}

Status MessageReceiver::landed(std::size_t link, std::size_t bytes) {
  const Landing landing = std::exchange(landings_[link], {});
  Stream& stream = *landing.stream;
  if (landing.announced != nullptr) {
    landing.announced->complete = true;
    return match(stream);
  }
  if (landing.eager) owe_credit(stream, bytes);
  if (landing.transfer == nullptr) return ok_status();
  Posted& post = posted(*landing.transfer);
  post.moved += bytes;
  if (post.moved == post.bytes) finish(stream, *landing.transfer);
  return ok_status();
}

void MessageReceiver::finish(Stream& stream, Transfer& transfer) {
  Posted& post = posted(transfer);
  if (is_announced(stream, transfer)) --expected_;
  post.phase = Phase::kFinished;
  complete_in_order(stream.queue);
  completed_ = true;
}

// As data of a message that was cleared early, its puts stand for the announcement: the sender has
// compared both.
[[gnu::noinline]] void MessageReceiver::on_landed(std::uint16_t target) {
  if (target >= shown_.size() || shown_[target].transfer == nullptr) return;  // it was given up
  const Shown shown = std::exchange(shown_[target], {});
  Posted& post = posted(*shown.transfer);
  post.target = kNoTarget;
  post.assigned = post.moved = post.bytes;
  if (std::exchange(post.phase, Phase::kMoving) == Phase::kClearedEarly) {
    skip_matched(*shown.stream);
    if (next_to_clear_early(*shown.stream) != nullptr) press(*shown.stream);
  }
  finish(*shown.stream, *shown.transfer);
}

/// The sender sends by the stream, or knows nothing of the target.
[[gnu::noinline]] void MessageReceiver::release_target(Transfer& transfer) {
  Posted& post = posted(transfer);
  if (post.target == kNoTarget) return;
  shown_[post.target] = {};
  puts_->release(std::exchange(post.target, kNoTarget));
}

[[gnu::noinline]] Status MessageReceiver::on_break(const Frame& frame) {
  TUTTI_ASSIGN(Stream* const stream, stream_of_peer(frame.stream));
  if (stream->broken) return ok_status();
  const Error error = cancelled_error(frame, frame.stream.source);
  stream->broken =
      std::make_unique<Broken>(Broken{.error = error, .notice = frame, .offender = {}});
  fail_posted(*stream, error);
  return ok_status();
}

// --- matching ---

// The receive that is posted for `message` and not matched, or null. Those before it may be waiting
// for data that was cleared early, which an announcement overtakes.
Result<Transfer*> MessageReceiver::receive_for(Stream& stream, std::uint64_t message) {
  if (stream.unmatched == nullptr) return nullptr;
  const std::uint64_t first = posted(*stream.unmatched).message;
  if (stream.next_message == 0 || message - first >= kMessageEpoch)
    TUTTI_TRY(renumber(stream, message));
  Transfer* transfer = stream.unmatched;
  while (transfer != nullptr && posted(*transfer).message != message) transfer = transfer->next;
  return transfer;
}

// Whether data of `message` came before its announcement, by another link, and was matched by that.
bool MessageReceiver::was_matched(const Stream& stream, std::uint64_t message) {
  if (stream.next_message == 0) return false;
  const std::uint64_t first =
      stream.unmatched == nullptr ? stream.next_message : posted(*stream.unmatched).message;
  if (first - message - 1 < kMessageEpoch) return true;
  Transfer* transfer = stream.unmatched;
  while (transfer != nullptr && posted(*transfer).message != message) transfer = transfer->next;
  return transfer != nullptr && !is_unmatched(*transfer);
}

// Matches the message `sent` with the receive that receive_for() found; none, and the stream
// broken, when they differ.
MessageReceiver::Accepted MessageReceiver::accept(Stream& stream, const Frame& sent) {
  Transfer* transfer = stream.unmatched;
  // A receive that is passed over has been cleared: its data is still to come.
  while (posted(*transfer).message != sent.message && posted(*transfer).phase != Phase::kQueued)
    transfer = transfer->next;
  Posted& post = posted(*transfer);
  if (post.message != sent.message || !is_unmatched(*transfer) ||
      !agree(sent.tag, sent.bytes, post.tag, post.bytes)) {
    Frame notice = frame_for(FrameType::kBreak, stream.id, post);
    notice.reason = BreakReason::kMismatch;
    break_stream(stream, Broken{.error = mismatch_error(sent, notice, stream.id.source),
                                .notice = notice,
                                .offender = sent,
                                .notify = true});
    return {};
  }
  if (stream.early_candidate == transfer) stream.early_candidate = transfer->next;
  const bool cleared_early = std::exchange(post.phase, Phase::kMoving) == Phase::kClearedEarly;
  skip_matched(stream);
  return {transfer, cleared_early};
}

// The first unmatched receive is for `message`: the numbers were not known, or the sender has
// forgotten the stream meanwhile, and with it every early CTS. It does not forget while a message
// is under way.
[[gnu::noinline]] Status MessageReceiver::renumber(Stream& stream, std::uint64_t message) {
  for (Transfer* transfer = stream.unmatched; transfer != nullptr; transfer = transfer->next)
    if (!is_unmatched(*transfer))
      return make_error(Code::kPeerFailed, "message {} of a stream whose message {} is under way",
                        message, posted(*transfer).message);
  stream.early_candidate = stream.unmatched;
  for (Transfer* transfer = stream.unmatched; transfer != nullptr; transfer = transfer->next) {
    release_target(*transfer);
    posted(*transfer).message = message++;
    if (std::exchange(posted(*transfer).phase, Phase::kQueued) == Phase::kClearedEarly) --expected_;
  }
  stream.next_message = message;
  return ok_status();
}

// Data of a later message may come first, by another link.
void MessageReceiver::skip_matched(Stream& stream) {
  while (stream.unmatched != nullptr && !is_unmatched(*stream.unmatched))
    stream.unmatched = stream.unmatched->next;
}

// The next receive that may be cleared early, before its message is announced. The message is too
// large to be eager, its number is known, and no announced message waits to be matched.
Transfer* MessageReceiver::next_to_clear_early(Stream& stream) {
  if (stream.next_message == 0 || stream.broken || closed_ || !stream.announced.empty())
    return nullptr;
  while (stream.early_candidate != nullptr && !is_announced(stream, *stream.early_candidate))
    stream.early_candidate = stream.early_candidate->next;
  if (stream.early_candidate == nullptr) return nullptr;
  const std::uint64_t ahead =
      posted(*stream.early_candidate).message - posted(*stream.unmatched).message;
  return ahead < kClearedEarly ? stream.early_candidate : nullptr;
}

Status MessageReceiver::match(Stream& stream) {
  while (!stream.announced.empty() && stream.announced.front()->complete) {
    const Frame& sent = stream.announced.front()->frame;
    // A sender that is gone, or gave up, still delivers what is here in full.
    const bool here = sent.type == FrameType::kEager;
    if ((stream.broken || closed_) && !here) break;
    TUTTI_ASSIGN(const Transfer* const wanted, receive_for(stream, sent.message));
    if (wanted == nullptr) break;
    const Accepted accepted = accept(stream, sent);
    if (accepted.transfer == nullptr) return ok_status();
    --stream.announced_count;
    consume(stream, stream.announced.pop_front(), accepted);
  }
  complete_in_order(stream.queue);
  if (next_to_clear_early(stream) != nullptr) press(stream);
  if (stream.unmatched == nullptr) return ok_status();
  if (stream.broken)
    fail_posted(stream, stream.broken->error);
  else if (closed_)
    fail_posted(stream, *closed_);
  return ok_status();
}

[[gnu::noinline]] void MessageReceiver::consume(Stream& stream, Announced& message,
                                                const Accepted& accepted) {
  Posted& post = posted(*accepted.transfer);
  const bool is_ready_to_send = message.frame.type == FrameType::kReadyToSend;
  if (is_ready_to_send && !accepted.cleared_early) {  // else its CTS is on the way
    post.phase = Phase::kMatched;
    ++stream.to_clear;
    press(stream);
  } else if (!is_ready_to_send) {
    if (post.bytes > 0) std::memcpy(post.data, message.data.get(), post.bytes);
    message.data.reset();
    post.phase = Phase::kFinished;
    kept_credits_ -= credits_of(post.bytes);
    owe_credit(stream, post.bytes);
  }
  free_announced_.push_back(message);
}

[[gnu::noinline]] void MessageReceiver::drop_announced(Stream& stream) {
  while (!stream.announced.empty()) {
    Announced& message = stream.announced.pop_front();
    --stream.announced_count;
    if (message.frame.type == FrameType::kEager) {
      message.data.reset();
      kept_credits_ -= credits_of(message.frame.bytes);
      owe_credit(stream, message.frame.bytes);
    }
    free_announced_.push_back(message);
  }
}

// Called between frames or by the owner of a transfer; the payload of a message that is landing
// here has nowhere to go any more.
[[gnu::noinline]] void MessageReceiver::fail_posted(Stream& stream, const Error& error) {
  for (Landing& landing : landings_)
    if (landing.stream == &stream && landing.transfer != nullptr)
      landing = {.stream = &stream, .eager = landing.eager};
  for (Transfer* transfer = stream.queue.front(); transfer != nullptr; transfer = transfer->next) {
    if (is_expected(stream, *transfer)) --expected_;
    Posted& post = posted(*transfer);
    if (post.target == kNoTarget) continue;
    shown_[post.target] = {};
    puts_->hide(std::exchange(post.target, kNoTarget));
  }
  stream.unmatched = nullptr;
  stream.early_candidate = nullptr;
  stream.to_clear = 0;
  fail_all(stream.queue, error);
}

[[gnu::noinline]] void MessageReceiver::break_stream(Stream& stream, Broken broken) {
  fail_posted(stream, broken.error);
  if (landings_[0].stream == &stream && landings_[0].announced != nullptr)
    landings_[0] = {.stream = &stream};  // drop_announced owes its credit
  drop_announced(stream);
  stream.broken = std::make_unique<Broken>(std::move(broken));
  press(stream);
}

// --- what is said ---

void MessageReceiver::owe_credit(Stream& stream, std::size_t bytes) {
  ++stream.owed_messages;
  stream.owed += credits_of(bytes);
  owed_ += credits_of(bytes);
  if (stream.owed_messages >= kPressingMessages) {
    press(stream);
  } else if (owed_ >= kPressingCreditsInAll) {
    for (auto& [id, other] : streams_)
      if (other.owed > 0) press(other);
  } else if (stream.owed_messages >= kLazyMessages && !stream.waiting && !stream.pressing) {
    stream.waiting = true;
    waiting_.push_back(&stream);
  }
}

void MessageReceiver::press(Stream& stream) {
  if (stream.pressing) return;
  stream.pressing = true;
  pressing_.push_back(stream);
}

bool MessageReceiver::produce() {
  while (!pressing_.empty()) {
    Stream& stream = *pressing_.front();
    if (produce_for(stream)) return true;
    pressing_.pop_front();
    stream.pressing = false;
  }
  return false;
}

bool MessageReceiver::produce_lazily() {
  while (!waiting_.empty()) {
    Stream& stream = *waiting_.back();
    waiting_.pop_back();
    stream.waiting = false;
    if (produce_for(stream)) return true;
  }
  return false;
}

[[gnu::noinline]] bool MessageReceiver::produce_for(Stream& stream) {
  if (stream.broken && stream.broken->notify) {
    add_break(out_, *stream.broken);
  } else if (stream.to_clear > 0) {
    send_clear_to_send(stream);
  } else if (Transfer* const transfer = next_to_clear_early(stream)) {
    if (!say_clear(stream, *transfer)) return produce_for(stream);
    posted(*transfer).phase = Phase::kClearedEarly;
    ++expected_;
    stream.early_candidate = transfer->next;
  } else if (stream.owed > 0) {
    out_.add(Frame{.type = FrameType::kCredit,
                   .stream = stream.id,
                   .bytes = stream.owed,
                   .offset = std::exchange(stream.owed_messages, 0)});
    owed_ -= std::exchange(stream.owed, 0);
  } else {
    return false;
  }
  return true;
}

void MessageReceiver::send_clear_to_send(Stream& stream) {
  Transfer* transfer = stream.queue.front();
  while (transfer != nullptr && posted(*transfer).phase != Phase::kMatched)
    transfer = transfer->next;
  if (transfer == nullptr) {
    stream.to_clear = 0;
    return;
  }
  Posted& post = posted(*transfer);
  if (!say_clear(stream, *transfer)) return add_break(out_, *stream.broken);
  --stream.to_clear;
  post.phase = post.bytes == 0 ? Phase::kFinished : Phase::kMoving;
  if (is_announced(stream, *transfer)) ++expected_;
  complete_in_order(stream.queue);
}

/// False if the message has to be put and cannot be: the stream is over then.
bool MessageReceiver::say_clear(Stream& stream, Transfer& transfer) {
  Posted& post = posted(transfer);
  Frame frame = frame_for(FrameType::kClearToSend, stream.id, post);
  std::optional<PutLink::Target> target;
  if (puts_ != nullptr && is_announced(stream, transfer))
    target = puts_->show({post.data, post.bytes});
  if (!target && transfer.device_memory && post.bytes > 0) {
    give_up(stream, post, no_cpu_writes(post, stream.id.source));
    return false;
  }
  if (!target) {
    out_.add(frame);
    return true;
  }
  if (shown_.size() <= target->number) shown_.resize(target->number + std::size_t{1});
  shown_[target->number] = {&stream, &transfer};
  post.target = target->number;
  frame.payload = static_cast<std::uint32_t>(target->key.size());
  out_.add(frame, target->key);
  return true;
}

// --- the end ---

void MessageReceiver::close(const Error& error, bool deliver) {
  closed_ = error;
  std::ranges::fill(landings_, Landing{});
  for (auto& [id, stream] : streams_) {
    fail_posted(stream, error);
    if (!deliver) drop_announced(stream);
  }
}

// --- pools ---

MessageReceiver::Announced& MessageReceiver::take_announced() {
  if (free_announced_.empty()) return announced_storage_.emplace_back();
  Announced& message = free_announced_.pop_front();
  message = Announced{};
  return message;
}

}  // namespace tutti
