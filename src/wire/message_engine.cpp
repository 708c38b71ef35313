#include "src/wire/message_engine.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

#include <poll.h>

#include "src/base/clock.hpp"
#include "src/base/result.hpp"
#include "src/wire/message_engine_receiver.hpp"
#include "src/wire/message_engine_sender.hpp"

namespace tutti {
namespace {

constexpr std::size_t kInboxBytes = 64 << 10;
// One progress() moves at most this many times what one read and one write move, so that it holds
// the lock for microseconds, not for a whole message.
constexpr int kTurns = 16;
// A connection that closes gives its last words this long to leave.
constexpr auto kLastWords = std::chrono::milliseconds(100);

}  // namespace

class MessageEngine::Core {
 public:
  Core(std::unique_ptr<ByteLink> link, EngineOptions options)
      : options_(std::move(options)),
        link_(std::move(link)),
        sender_(out_, options_.shuffle_seed),
        receiver_(out_),
        inbox_(kInboxBytes),
        sink_(kInboxBytes) {}
  ~Core();

  void send(const StreamId& stream, const MessageTag& tag, std::span<const std::byte> data,
            Transfer& transfer);
  void recv(const StreamId& stream, const MessageTag& tag, std::span<std::byte> data,
            Transfer& transfer);
  void cancel(const StreamId& stream, Transfer& transfer);
  bool progress();
  Status health();
  [[nodiscard]] int poll_fd() const { return link_->poll_fd(); }
  [[nodiscard]] bool wants_write() const { return blocked_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::span<std::byte> mapped() const { return options_.mapped; }
  [[nodiscard]] pid_t local_pid() const { return options_.local_pid; }

 private:
  /// What came of one read or write: after kAll another one may move more.
  enum class Step : std::uint8_t { kNothing, kSome, kAll };

  bool pump();
  bool pump_output();
  Step write_once();
  void fill_outbox();
  bool pump_input();
  Step read_once();
  struct Taken {
    std::size_t asked, got;
  };
  Result<Taken> read_some();
  Status parse_inbox();
  Status take_payload(std::size_t available);
  Status take_frame(const Frame& frame);
  Status end_payload();
  Status take_break(const Frame& frame, const std::optional<Frame>& offender);
  bool look_around();
  void die(const Error& why);

  std::mutex mutex_;
  EngineOptions options_;
  std::unique_ptr<ByteLink> link_;
  Outbox out_;
  MessageSender sender_;
  MessageReceiver receiver_;

  // Input: bytes read and not yet parsed, and the frame whose payload is arriving.
  std::vector<std::byte> inbox_;
  std::size_t inbox_begin_ = 0;
  std::size_t inbox_end_ = 0;
  Frame frame_;
  std::size_t payload_left_ = 0;
  FrameHeader offender_{};       // payload of a kBreak
  std::vector<std::byte> sink_;  // where payload without a place goes

  std::atomic<bool> blocked_{false};
  std::optional<Error> write_error_;
  std::optional<Error> dead_;
  bool departed_ = false;  // the peer said goodbye
};

// --- posting ---

void MessageEngine::Core::send(const StreamId& stream, const MessageTag& tag,
                               std::span<const std::byte> data, Transfer& transfer) {
  std::scoped_lock lock(mutex_);
  sender_.post(stream, tag, data, transfer);
  // The receiver may have cleared a large message before it is announced.
  if (data.size() > kEagerLimit && !dead_)
    pump();
  else
    pump_output();
}

void MessageEngine::Core::recv(const StreamId& stream, const MessageTag& tag,
                               std::span<std::byte> data, Transfer& transfer) {
  std::scoped_lock lock(mutex_);
  receiver_.post(stream, tag, data, transfer);
}

void MessageEngine::Core::cancel(const StreamId& stream, Transfer& transfer) {
  std::scoped_lock lock(mutex_);
  if (transfer.state.load(std::memory_order_acquire) != Transfer::State::kPending) return;
  if (!sender_.cancel(stream, transfer)) receiver_.cancel(stream, transfer);
  pump_output();
}

// --- moving bytes ---

bool MessageEngine::Core::progress() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || dead_) return false;
  return pump() || look_around();
}

// Reading and writing take turns: when both sides of an exchange write all they can first, what is
// under way grows out of the caches.
bool MessageEngine::Core::pump() {
  bool moved = false;
  Step input = Step::kAll;
  Step output = Step::kAll;
  for (int turn = 0; turn < kTurns && !dead_; ++turn) {
    if (input == Step::kAll) input = read_once();
    // What was read may have given leave to write.
    output = output == Step::kAll || input == Step::kAll ? write_once() : Step::kNothing;
    moved |= input != Step::kNothing || output != Step::kNothing;
    // The caller may have another receive to post: what comes for it should land in its place.
    if (receiver_.has_completed()) break;
    if (input != Step::kAll && output != Step::kAll) break;
  }
  blocked_.store(!out_.empty() && !dead_, std::memory_order_relaxed);
  return moved;
}

void MessageEngine::Core::fill_outbox() {
  while (out_.has_room() && (receiver_.produce() || sender_.produce())) {
  }
  if (!out_.empty())
    while (out_.has_room() && receiver_.produce_lazily()) {
    }
}

MessageEngine::Core::Step MessageEngine::Core::write_once() {
  if (dead_ || write_error_) return Step::kNothing;
  fill_outbox();
  if (out_.empty()) return Step::kNothing;
  std::array<iovec, 2> pieces;
  std::ranges::transform(out_.pieces(), pieces.begin(), [](std::span<const std::byte> piece) {
    return iovec{const_cast<std::byte*>(piece.data()), piece.size()};
  });
  const bool has_tail = pieces[1].iov_len > 0;
  const auto written = link_->write(std::span(pieces).first(has_tail ? 2 : 1));
  if (!written) {
    write_error_ = written.error();  // what the peer said last may still be there to read
    return Step::kNothing;
  }
  if (*written == 0) return Step::kNothing;
  if (Transfer* sent = out_.taken_by_link(*written)) sender_.tail_sent(*sent);
  return Step::kAll;
}

bool MessageEngine::Core::pump_output() {
  bool moved = false;
  for (int turn = 0; turn < kTurns; ++turn) {
    const Step step = write_once();
    moved |= step != Step::kNothing;
    if (step != Step::kAll) break;
  }
  blocked_.store(!out_.empty() && !dead_, std::memory_order_relaxed);
  return moved;
}

MessageEngine::Core::Step MessageEngine::Core::read_once() {
  if (dead_) return Step::kNothing;
  const auto read = read_some();
  if (!read) {
    die(read.error());
    return Step::kSome;
  }
  if (read->got == 0) {
    if (write_error_) die(Error(*write_error_));
    return Step::kNothing;
  }
  if (Status parsed = parse_inbox(); !parsed)
    die(make_error(Code::kPeerFailed, "it sent {}", parsed.error().what));
  else if (departed_)
    die({});
  return read->got == read->asked ? Step::kAll : Step::kSome;
}

bool MessageEngine::Core::pump_input() {
  bool moved = false;
  for (int turn = 0; turn < kTurns; ++turn) {
    const Step step = read_once();
    moved |= step != Step::kNothing;
    if (step != Step::kAll) break;
  }
  return moved;
}

// Payload goes straight to its place; what follows it goes to the inbox.
Result<MessageEngine::Core::Taken> MessageEngine::Core::read_some() {
  std::array<iovec, 2> pieces;
  std::size_t direct = 0;
  if (payload_left_ > 0) {
    const bool is_break = frame_.type == FrameType::kBreak;
    std::byte* const place = is_break ? offender_.data() : receiver_.landing();
    const std::size_t done = frame_.payload - payload_left_;
    direct = place == nullptr ? std::min(payload_left_, sink_.size()) : payload_left_;
    pieces[0] = {place == nullptr ? sink_.data() : place + done, direct};
  }
  const std::size_t ahead = std::max(link_->read_ahead(), kHeaderBytes);
  const iovec behind = {inbox_.data() + inbox_end_, std::min(ahead, inbox_.size() - inbox_end_)};
  const bool whole = direct == payload_left_;  // else the sink is smaller than the payload
  const std::size_t count = direct > 0 ? (whole ? 2 : 1) : 1;
  if (whole) pieces[count - 1] = behind;
  TUTTI_ASSIGN(const std::size_t got, link_->read(std::span(pieces).first(count)));
  const std::size_t landed = std::min(got, direct);
  inbox_end_ += got - landed;
  if (landed > 0) {
    payload_left_ -= landed;
    if (payload_left_ == 0) TUTTI_TRY(end_payload());
  }
  return Taken{direct + (whole ? behind.iov_len : 0), got};
}

Status MessageEngine::Core::parse_inbox() {
  while (inbox_begin_ < inbox_end_) {
    const std::size_t available = inbox_end_ - inbox_begin_;
    if (payload_left_ > 0) {
      TUTTI_TRY(take_payload(available));
      continue;
    }
    if (departed_) return make_error(Code::kPeerFailed, "more after its goodbye");
    if (available < kHeaderBytes) break;
    const std::span<const std::byte, kHeaderBytes> header(inbox_.data() + inbox_begin_,
                                                          kHeaderBytes);
    inbox_begin_ += kHeaderBytes;
    TUTTI_ASSIGN(frame_, decode(header));
    TUTTI_TRY(take_frame(frame_));
  }
  std::memmove(inbox_.data(), inbox_.data() + inbox_begin_, inbox_end_ - inbox_begin_);
  inbox_end_ -= std::exchange(inbox_begin_, 0);
  return ok_status();
}

Status MessageEngine::Core::take_payload(std::size_t available) {
  const std::size_t bytes = std::min(available, payload_left_);
  std::byte* place = frame_.type == FrameType::kBreak ? offender_.data() : receiver_.landing();
  if (place != nullptr)
    std::memcpy(place + (frame_.payload - payload_left_), inbox_.data() + inbox_begin_, bytes);
  inbox_begin_ += bytes;
  payload_left_ -= bytes;
  return payload_left_ == 0 ? end_payload() : ok_status();
}

Status MessageEngine::Core::take_frame(const Frame& frame) {
  switch (frame.type) {
    case FrameType::kEager:
      TUTTI_TRY(receiver_.on_eager(frame));
      break;
    case FrameType::kData:
      TUTTI_TRY(receiver_.on_data(frame));
      break;
    case FrameType::kRequest:
      return receiver_.on_request(frame);
    case FrameType::kClear:
      return sender_.on_clear(frame);
    case FrameType::kCredit:
      return sender_.on_credit(frame);
    case FrameType::kBreak:
      if (frame.payload == 0) return take_break(frame, std::nullopt);
      break;
    case FrameType::kGoodbye:
      departed_ = true;
      return ok_status();
  }
  payload_left_ = frame.payload;
  return payload_left_ == 0 ? end_payload() : ok_status();
}

Status MessageEngine::Core::end_payload() {
  if (frame_.type != FrameType::kBreak) {
    receiver_.landed(frame_.payload);
    return ok_status();
  }
  TUTTI_ASSIGN(const Frame offender, decode(offender_));
  return take_break(frame_, offender);
}

Status MessageEngine::Core::take_break(const Frame& frame, const std::optional<Frame>& offender) {
  return frame.reason == BreakReason::kSendCancelled ? receiver_.on_break(frame)
                                                     : sender_.on_break(frame, offender);
}

// --- the end ---

// Nothing moved: why? Returns whether something moved after all.
bool MessageEngine::Core::look_around() {
  if (dead_) return false;
  const auto again = link_->check();
  if (again) return *again && pump();
  while (!dead_ && pump_input()) {  // what it said last is still worth hearing
  }
  if (!dead_) die(again.error());
  return true;
}

void MessageEngine::Core::die(const Error& why) {
  dead_ = departed_ ? peer_error(Code::kPeerFailed, options_.peer,
                                 "rank {} has left: it closed its {} connection", options_.peer,
                                 options_.link_name)
                    : peer_error(Code::kPeerFailed, options_.peer,
                                 "rank {} failed: its {} connection broke: {}", options_.peer,
                                 options_.link_name, why.what);
  dead_->os_errno = why.os_errno;
  link_->shutdown();
  out_.clear();
  blocked_.store(false, std::memory_order_relaxed);
  payload_left_ = 0;
  sender_.close(*dead_);
  receiver_.close(*dead_, departed_);
}

Status MessageEngine::Core::health() {
  std::scoped_lock lock(mutex_);
  if (!dead_ && !pump()) look_around();
  return dead_ ? Status(Error(*dead_)) : ok_status();
}

MessageEngine::Core::~Core() {
  if (dead_) return;
  const Error closed =
      peer_error(Code::kAborted, options_.peer, "this rank closed its {} connection to rank {}",
                 options_.link_name, options_.peer);
  sender_.close(closed);
  receiver_.close(closed, false);
  const Deadline deadline = Deadline::after(kLastWords);
  bool said_goodbye = false;
  while (!dead_ && !write_error_) {
    pump_output();
    if (!said_goodbye && out_.has_room()) {
      out_.add(Frame{.type = FrameType::kGoodbye});
      said_goodbye = true;
    } else if ((out_.empty() && said_goodbye) || deadline.passed()) {
      break;
    } else if (pollfd room{link_->poll_fd(), POLLOUT, 0}; room.fd >= 0) {
      ::poll(&room, 1, 1);
    }
  }
}

// --- the Connection ---

MessageEngine::MessageEngine(std::unique_ptr<ByteLink> link, EngineOptions options)
    : core_(std::make_unique<Core>(std::move(link), std::move(options))) {}
MessageEngine::~MessageEngine() = default;

void MessageEngine::send(const StreamId& stream, const MessageTag& tag,
                         std::span<const std::byte> data, Transfer& transfer) {
  core_->send(stream, tag, data, transfer);
}
void MessageEngine::recv(const StreamId& stream, const MessageTag& tag, std::span<std::byte> data,
                         Transfer& transfer) {
  core_->recv(stream, tag, data, transfer);
}
void MessageEngine::cancel(const StreamId& stream, Transfer& transfer) {
  core_->cancel(stream, transfer);
}
bool MessageEngine::progress() { return core_->progress(); }
int MessageEngine::poll_fd() const { return core_->poll_fd(); }
bool MessageEngine::wants_write() const { return core_->wants_write(); }
Status MessageEngine::health() const { return core_->health(); }
std::span<std::byte> MessageEngine::mapped() const { return core_->mapped(); }
pid_t MessageEngine::local_pid() const { return core_->local_pid(); }

}  // namespace tutti
