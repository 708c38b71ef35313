#include "src/wire/message_engine_receiver.hpp"

#include <algorithm>

#include "src/base/result.hpp"

namespace tutti {
namespace {

// Credits of a stream, and of all streams, that are worth a frame of their own; below that they
// wait for company. The sender has at least half of its window left when they go.
constexpr std::uint32_t kLazyCredits = kStreamWindow / 4;
constexpr std::uint32_t kPressingCredits = kStreamWindow / 2;
constexpr std::uint32_t kPressingCreditsInAll = kConnectionEagers / 4;

bool calls_agree(const CallSignature& sent, const CallSignature& expected) {
  if (sent.collective == Collective::kSend && expected.collective == Collective::kRecv)
    return sent.type == expected.type && sent.count == expected.count;
  return sent == expected;
}

bool agree(const Frame& sent, const Posted& expected) {
  return sent.tag.sequence == expected.tag.sequence && sent.bytes == expected.bytes &&
         calls_agree(sent.tag.call, expected.tag.call);
}

Frame frame_for(FrameType type, const StreamId& id, const Posted& post) {
  return Frame{
      .type = type, .stream = id, .message = post.message, .tag = post.tag, .bytes = post.bytes};
}

}  // namespace

MessageReceiver::Stream& MessageReceiver::stream(const StreamId& id) {
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
  for (auto& [id, stream] : streams_)
    if (stream.owed > 0) press(stream);
  std::erase_if(streams_, [this](const auto& entry) {
    const Stream& stream = entry.second;
    return stream.queue.empty() && stream.announced.empty() && stream.owed == 0 &&
           !stream.pressing && !stream.waiting && !stream.broken && landing_.stream != &stream;
  });
  forget_at_ = std::max<std::size_t>(forget_at_, 2 * streams_.size());
}

void MessageReceiver::post(const StreamId& id, const MessageTag& tag, std::span<std::byte> data,
                           Transfer& transfer) {
  start_pending(transfer, tag, data.data(), data.size());
  Stream& from = stream(id);
  from.queue.push_back(transfer);
  if (from.unmatched == nullptr) from.unmatched = &transfer;
  match(from);
}

bool MessageReceiver::cancel(const StreamId& id, Transfer& transfer) {
  const auto found = streams_.find(id);
  if (found == streams_.end() || !found->second.queue.contains(transfer)) return false;
  Stream& from = found->second;
  Frame notice = frame_for(FrameType::kBreak, id, posted(transfer));
  notice.reason = BreakReason::kRecvCancelled;
  break_stream(
      from, Broken{.error = make_error(Code::kAborted,
                                       "this rank cancelled its receive of {} as operation {} from "
                                       "rank {}",
                                       describe(notice.tag.call), notice.tag.sequence, id.source),
                   .notice = notice,
                   .offender = std::nullopt,
                   .notify = true});
  return true;
}

// --- what arrives ---

Status MessageReceiver::on_eager(const Frame& frame) {
  TUTTI_ASSIGN(Stream* const stream, stream_of_peer(frame.stream));
  landing_ = {.stream = stream, .eager = true};
  if (stream->broken) return ok_status();
  if (stream->unmatched == nullptr || !stream->announced.empty()) return keep(*stream, frame);
  Transfer* const transfer = accept(*stream, frame);
  if (transfer == nullptr) return ok_status();
  posted(*transfer).phase = Phase::kMoving;
  landing_.transfer = transfer;
  landing_.data = posted(*transfer).data;
  return ok_status();
}

Status MessageReceiver::keep(Stream& stream, const Frame& frame) {
  const bool eager = frame.type == FrameType::kEager;
  if (stream.announced_count >= kStreamWindow || (eager && kept_eagers_ >= kConnectionEagers))
    return make_error(Code::kPeerFailed, "more messages than the receiver gave credit for");
  Announced& message = take_announced();
  message.frame = frame;
  if (eager) {
    ++kept_eagers_;
    if (frame.bytes > 0) message.data = take_buffer();
    message.complete = false;
    landing_.announced = &message;
    landing_.data = message.data;
  }
  ++stream.announced_count;
  stream.announced.push_back(message);
  return ok_status();
}

Status MessageReceiver::on_request(const Frame& frame) {
  TUTTI_ASSIGN(Stream* const stream, stream_of_peer(frame.stream));
  if (stream->broken) return ok_status();
  TUTTI_TRY(keep(*stream, frame));
  match(*stream);
  return ok_status();
}

Status MessageReceiver::on_data(const Frame& frame) {
  const auto found = streams_.find(frame.stream);
  if (found == streams_.end())
    return make_error(Code::kPeerFailed, "data of a stream without messages");
  Stream& stream = found->second;
  landing_ = {.stream = &stream};
  if (stream.broken) return ok_status();
  Transfer* transfer = stream.queue.front();
  while (transfer != nullptr &&
         (posted(*transfer).phase != Phase::kMoving || posted(*transfer).message != frame.message))
    transfer = transfer->next;
  if (transfer == nullptr || posted(*transfer).moved != frame.offset ||
      posted(*transfer).bytes != frame.bytes)
    return make_error(Code::kPeerFailed, "data of message {} at {} of {} bytes was not cleared",
                      frame.message, frame.offset, frame.bytes);
  landing_.transfer = transfer;
  landing_.data = posted(*transfer).data + frame.offset;
  return ok_status();
}

void MessageReceiver::landed(std::size_t bytes) {
  const Landing landing = std::exchange(landing_, {});
  Stream& stream = *landing.stream;
  if (landing.announced != nullptr) {
    landing.announced->complete = true;
    match(stream);
    return;
  }
  if (landing.eager) owe_credit(stream);
  if (landing.transfer == nullptr) return;
  Posted& post = posted(*landing.transfer);
  post.moved += bytes;
  if (post.moved == post.bytes) post.phase = Phase::kFinished;
  complete_in_order(stream.queue);
}

Status MessageReceiver::on_break(const Frame& frame) {
  TUTTI_ASSIGN(Stream* const stream, stream_of_peer(frame.stream));
  if (stream->broken) return ok_status();
  const Error error = cancelled_error(frame, frame.stream.source);
  stream->broken =
      std::make_unique<Broken>(Broken{.error = error, .notice = frame, .offender = {}});
  fail_posted(*stream, error);
  return ok_status();
}

// --- matching ---

// The first unmatched receive, now matched with the message `sent`; null, and the stream broken,
// when they differ.
Transfer* MessageReceiver::accept(Stream& stream, const Frame& sent) {
  Posted& post = posted(*stream.unmatched);
  if (!agree(sent, post)) {
    Frame notice = frame_for(FrameType::kBreak, stream.id, post);
    notice.reason = BreakReason::kMismatch;
    break_stream(stream, Broken{.error = mismatch_error(sent, notice, stream.id.source),
                                .notice = notice,
                                .offender = sent,
                                .notify = true});
    return nullptr;
  }
  post.message = sent.message;
  return std::exchange(stream.unmatched, stream.unmatched->next);
}

void MessageReceiver::match(Stream& stream) {
  while (stream.unmatched != nullptr && !stream.announced.empty() &&
         stream.announced.front()->complete) {
    // A sender that is gone, or gave up, still delivers what is here in full.
    const bool here = stream.announced.front()->frame.type == FrameType::kEager;
    if ((stream.broken || closed_) && !here) break;
    Transfer* const transfer = accept(stream, stream.announced.front()->frame);
    if (transfer == nullptr) return;
    --stream.announced_count;
    consume(stream, stream.announced.pop_front(), posted(*transfer));
  }
  complete_in_order(stream.queue);
  if (stream.unmatched == nullptr) return;
  if (stream.broken)
    fail_posted(stream, stream.broken->error);
  else if (closed_)
    fail_posted(stream, *closed_);
}

void MessageReceiver::consume(Stream& stream, Announced& message, Posted& post) {
  if (message.frame.type == FrameType::kRequest) {
    post.phase = Phase::kMatched;
    ++stream.to_clear;
    press(stream);
  } else {
    if (post.bytes > 0) std::memcpy(post.data, message.data, post.bytes);
    post.phase = Phase::kFinished;
    --kept_eagers_;
    owe_credit(stream);
    if (message.data != nullptr) free_buffers_.push_back(message.data);
  }
  free_announced_.push_back(message);
}

void MessageReceiver::drop_announced(Stream& stream) {
  while (!stream.announced.empty()) {
    Announced& message = stream.announced.pop_front();
    --stream.announced_count;
    if (message.frame.type == FrameType::kEager) {
      --kept_eagers_;
      owe_credit(stream);
      if (message.data != nullptr) free_buffers_.push_back(message.data);
    }
    free_announced_.push_back(message);
  }
}

// Called between frames or by the owner of a transfer; the payload of a message that is landing
// here has nowhere to go any more.
void MessageReceiver::fail_posted(Stream& stream, const Error& error) {
  if (landing_.stream == &stream && landing_.transfer != nullptr) {
    landing_.transfer = nullptr;
    landing_.data = nullptr;
  }
  stream.unmatched = nullptr;
  stream.to_clear = 0;
  fail_all(stream.queue, error);
}

void MessageReceiver::break_stream(Stream& stream, Broken broken) {
  fail_posted(stream, broken.error);
  if (landing_.stream == &stream && landing_.announced != nullptr)
    landing_ = {.stream = &stream};  // drop_announced owes its credit
  drop_announced(stream);
  stream.broken = std::make_unique<Broken>(std::move(broken));
  press(stream);
}

// --- what is said ---

void MessageReceiver::owe_credit(Stream& stream) {
  ++stream.owed;
  ++owed_;
  if (stream.owed >= kPressingCredits) {
    press(stream);
  } else if (owed_ >= kPressingCreditsInAll) {
    for (auto& [id, other] : streams_)
      if (other.owed > 0) press(other);
  } else if (stream.owed >= kLazyCredits && !stream.waiting && !stream.pressing) {
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

bool MessageReceiver::produce_for(Stream& stream) {
  if (stream.broken && stream.broken->notify) {
    add_break(out_, *stream.broken);
  } else if (stream.to_clear > 0) {
    clear_next(stream);
  } else if (stream.owed > 0) {
    out_.add(Frame{.type = FrameType::kCredit, .stream = stream.id, .offset = stream.owed});
    owed_ -= std::exchange(stream.owed, 0);
  } else {
    return false;
  }
  return true;
}

void MessageReceiver::clear_next(Stream& stream) {
  Transfer* transfer = stream.queue.front();
  while (posted(*transfer).phase != Phase::kMatched) transfer = transfer->next;
  Posted& post = posted(*transfer);
  out_.add(frame_for(FrameType::kClear, stream.id, post));
  --stream.to_clear;
  post.phase = post.bytes == 0 ? Phase::kFinished : Phase::kMoving;
  complete_in_order(stream.queue);
}

// --- the end ---

void MessageReceiver::close(const Error& error, bool deliver) {
  closed_ = error;
  landing_ = {};
  for (auto& [id, stream] : streams_) {
    fail_posted(stream, error);
    if (!deliver) drop_announced(stream);
  }
}

// --- pools ---

std::byte* MessageReceiver::take_buffer() {
  if (free_buffers_.empty()) {
    buffer_storage_.push_back(std::make_unique_for_overwrite<std::byte[]>(kEagerLimit));
    return buffer_storage_.back().get();
  }
  std::byte* buffer = free_buffers_.back();
  free_buffers_.pop_back();
  return buffer;
}

MessageReceiver::Announced& MessageReceiver::take_announced() {
  if (free_announced_.empty()) return announced_storage_.emplace_back();
  Announced& message = free_announced_.pop_front();
  message = Announced{};
  return message;
}

}  // namespace tutti
