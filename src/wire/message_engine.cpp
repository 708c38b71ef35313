#include "src/wire/message_engine.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <mutex>

#include <poll.h>

#include "src/base/clock.hpp"
#include "src/base/result.hpp"
#include "src/wire/message_engine_link.hpp"
#include "src/wire/message_engine_receiver.hpp"
#include "src/wire/message_engine_sender.hpp"

namespace tutti {
namespace {

// One progress() moves at most this many times what one read and one write move, so that it holds
// the lock for microseconds, not for a whole message.
constexpr int kTurns = 16;
// Where no DATA is expected, one progress() in so many looks at the links that carry nothing else.
constexpr std::uint32_t kLooksApart = 64;
// A connection that closes gives its last words this long to leave.
constexpr auto kLastWords = std::chrono::milliseconds(100);
// And what has left gets this long to arrive, on all links together.
constexpr auto kLinger = std::chrono::seconds(1);

Error sent(const Status& wrong) {
  return make_error(Code::kPeerFailed, "it sent {}", wrong.error().what);
}

}  // namespace

class MessageEngine::Core {
 public:
  Core(std::vector<std::unique_ptr<ByteLink>> links, EngineOptions options)
      : options_(std::move(options)),
        links_(std::make_move_iterator(links.begin()), std::make_move_iterator(links.end())),
        puts_(links_.front().bytes->puts()),
        sender_(outboxes(links_), puts_, options_.shuffle_seed),
        receiver_(links_.front().out, links_.size(), puts_),
        sink_(kChunkBytes),
        waker_(links_) {}
  ~Core();

  void send(const StreamId& stream, const MessageTag& tag, std::span<const std::byte> data,
            Transfer& transfer, bool waits_for_next);
  void recv(const StreamId& stream, const MessageTag& tag, std::span<std::byte> data,
            Transfer& transfer);
  void cancel(const StreamId& stream, Transfer& transfer);
  bool progress();
  Status health();
  [[nodiscard]] int poll_fd() const { return waker_.fd(); }
  [[nodiscard]] bool wants_write() const { return blocked_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool carries_device_memory() const { return options_.carries_device_memory; }
  [[nodiscard]] std::span<std::byte> mapped() const { return options_.mapped; }
  [[nodiscard]] pid_t local_pid() const { return options_.local_pid; }

 private:
  /// What came of one read or write: after kAll another one may move more.
  enum class Step : std::uint8_t { kNothing, kSome, kAll };
  using Link = EngineLink;

  static std::vector<Outbox*> outboxes(std::span<Link> links);
  bool pump();
  bool pump_output();
  bool pump_input();
  Step exchange(std::size_t index, bool first);
  Step write_once(std::size_t index);
  Step read_once(std::size_t index);
  void fill_outbox(std::size_t index);
  void note_blocked();
  [[nodiscard]] bool wants_read(const Link& link);
  [[nodiscard]] bool has_departed() const;
  struct Taken {
    std::size_t asked, got;
  };
  Result<Taken> read_some(std::size_t index);
  std::byte* landing(std::size_t index);
  Status parse_inbox(std::size_t index);
  static Result<bool> parse_header(Link& link, std::size_t available);
  Status take_payload(std::size_t index, std::size_t available);
  Status take_frame(std::size_t index);
  bool take_put_events();
  Status end_payload(std::size_t index);
  Status take_break(const Frame& frame, const std::optional<Frame>& offender);
  bool look_around();
  void die(const Error& why);
  void say_last_words();
  bool finish_links();

  std::mutex mutex_;
  EngineOptions options_;
  std::vector<Link> links_;  // the first carries all but DATA; none comes or goes
  PutLink* const puts_;      // of the first link; or null
  MessageSender sender_;
  MessageReceiver receiver_;
  FrameHeader offender_{};                      // payload of a kBreak
  std::array<std::byte, kMostKeyBytes> key_{};  // payload of a kClearToSend
  std::vector<std::byte> sink_;                 // where payload without a place goes
  LinkWaker waker_;
  std::uint32_t pumps_ = 0;

  std::atomic<bool> blocked_{false};
  std::optional<Error> dead_;
};

// --- posting ---

// A short message passes through some thirty functions, and calling them took a quarter of its
// instructions. So these are flattened, here and in the two halves; what is rare is kept out of
// line.
[[gnu::flatten]] void MessageEngine::Core::send(const StreamId& stream, const MessageTag& tag,
                                                std::span<const std::byte> data, Transfer& transfer,
                                                bool waits_for_next) {
  std::scoped_lock lock(mutex_);
  sender_.post(stream, tag, data, transfer);
  if (waits_for_next && data.size() <= Outbox::kCopyLimit) return;  // longer ones are not joined
  // The receiver may have cleared a large message before it is announced.
  if (data.size() > eager_limit(puts_) && !dead_)
    pump();
  else
    pump_output();
}

[[gnu::flatten]] void MessageEngine::Core::recv(const StreamId& stream, const MessageTag& tag,
                                                std::span<std::byte> data, Transfer& transfer) {
  std::scoped_lock lock(mutex_);
  if (Status posted = receiver_.post(stream, tag, data, transfer); !posted) die(sent(posted));
  // What it has to say leaves with the next send or progress(); but who has failed may call
  // neither.
  if (transfer.state.load(std::memory_order_relaxed) != Transfer::State::kPending) pump_output();
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

std::vector<Outbox*> MessageEngine::Core::outboxes(std::span<Link> links) {
  std::vector<Outbox*> outs;
  for (Link& link : links) outs.push_back(&link.out);
  return outs;
}

// Reading and writing take turns: when both sides of an exchange write all they can first, what is
// under way grows out of the caches. A chunk goes to whichever link has room for it.
[[gnu::flatten]] bool MessageEngine::Core::pump() {
  bool moved = false;
  ++pumps_;
  for (std::size_t i = 0; i < links_.size(); ++i) links_[i].readable = wants_read(links_[i]);
  for (int turn = 0; turn < kTurns && !dead_; ++turn) {
    bool more = false;
    for (std::size_t i = 0; i < links_.size() && !dead_; ++i) {
      const Step step = exchange(i, turn == 0);
      moved |= step != Step::kNothing;
      more |= step == Step::kAll;
    }
    // The caller may have another receive to post: what comes for it should land in its place.
    if (!more || receiver_.has_completed()) break;
  }
  note_blocked();
  return moved;
}

/// One read, while the link has something to read, and one write: what was read may have given
/// leave to write.
MessageEngine::Core::Step MessageEngine::Core::exchange(std::size_t index, bool first) {
  Link& link = links_[index];
  const bool reads = link.readable;
  const Step input = reads ? read_once(index) : Step::kNothing;
  link.readable = input == Step::kAll;
  const bool writes = first || link.writable || input != Step::kNothing;
  const Step output = writes ? write_once(index) : Step::kNothing;
  link.writable = output == Step::kAll;
  return std::max(input, output);
}

// The links for DATA alone are not worth a system call each time while none is expected.
bool MessageEngine::Core::wants_read(const Link& link) {
  if (link.departed) return false;
  return &link == &links_.front() || link.payload_left > 0 || receiver_.expects_data() ||
         links_.front().departed || pumps_ % kLooksApart == 0;
}

bool MessageEngine::Core::has_departed() const {
  return std::ranges::all_of(links_, &Link::departed);
}

void MessageEngine::Core::fill_outbox(std::size_t index) {
  Outbox& out = links_[index].out;
  if (index > 0) {
    while (out.has_room() && sender_.produce_chunk(index)) {
    }
    return;
  }
  while (out.has_room() && (receiver_.produce() || sender_.produce())) {
  }
  if (!out.empty())
    while (out.has_room() && receiver_.produce_lazily()) {
    }
}

MessageEngine::Core::Step MessageEngine::Core::write_once(std::size_t index) {
  Link& link = links_[index];
  if (dead_ || link.write_error) return Step::kNothing;
  fill_outbox(index);
  Outbox& out = link.out;
  if (out.empty()) return Step::kNothing;
  std::array<iovec, 2> pieces;
  std::ranges::transform(out.pieces(), pieces.begin(), [](std::span<const std::byte> piece) {
    return iovec{const_cast<std::byte*>(piece.data()), piece.size()};
  });
  const bool has_tail = pieces[1].iov_len > 0;
  const auto written = link.bytes->write(std::span(pieces).first(has_tail ? 2 : 1));
  if (!written) {
    link.write_error = written.error();  // what the peer said last may still be there to read
    return Step::kNothing;
  }
  if (*written == 0) return Step::kNothing;
  if (Transfer* sent = out.taken_by_link(*written)) sender_.tail_sent(index, *sent);
  // A link that took a part may take the rest now: nobody need come back for it.
  return !out.empty() || sender_.has_work() || receiver_.presses() ? Step::kAll : Step::kSome;
}

bool MessageEngine::Core::pump_output() {
  bool moved = false;
  for (std::size_t i = 0; i < links_.size(); ++i)
    for (int turn = 0; turn < kTurns; ++turn) {
      const Step step = write_once(i);
      moved |= step != Step::kNothing;
      if (step != Step::kAll) break;
    }
  note_blocked();
  return moved;
}

void MessageEngine::Core::note_blocked() {
  bool blocked = std::ranges::any_of(links_, [](const Link& link) { return !link.out.empty(); });
  blocked |= links_.front().bytes->holds_back();
  blocked &= !dead_;
  blocked_.store(blocked, std::memory_order_relaxed);
}

MessageEngine::Core::Step MessageEngine::Core::read_once(std::size_t index) {
  if (dead_) return Step::kNothing;
  const auto read = read_some(index);
  const bool put = index == 0 && puts_ != nullptr && take_put_events();
  if (!read) {
    die(read.error());
    return Step::kSome;
  }
  if (read->got == 0) {
    if (put) return Step::kSome;
    if (links_[index].write_error) die(Error(*links_[index].write_error));
    return Step::kNothing;
  }
  if (Status parsed = parse_inbox(index); !parsed)
    die(sent(parsed));
  else if (has_departed())
    die({});
  return read->got == read->asked && !links_[index].departed ? Step::kAll : Step::kSome;
}

bool MessageEngine::Core::pump_input() {
  bool moved = false;
  for (std::size_t i = 0; i < links_.size(); ++i)
    for (int turn = 0; turn < kTurns && !links_[i].departed; ++turn) {
      const Step step = read_once(i);
      moved |= step != Step::kNothing;
      if (step != Step::kAll) break;
    }
  return moved;
}

// Payload goes straight to its place; what follows it goes to the inbox.
Result<MessageEngine::Core::Taken> MessageEngine::Core::read_some(std::size_t index) {
  Link& link = links_[index];
  std::array<iovec, 2> pieces;
  std::size_t direct = 0;
  if (link.payload_left > 0) {
    std::byte* const place = landing(index);
    const std::size_t done = link.frame.payload - link.payload_left;
    direct = place == nullptr ? std::min(link.payload_left, sink_.size()) : link.payload_left;
    pieces[0] = {place == nullptr ? sink_.data() : place + done, direct};
  }
  const iovec behind = link.inbox_room();
  const bool whole = direct == link.payload_left;  // else the sink is smaller than the payload
  const std::size_t count = direct > 0 && whole ? 2 : 1;
  if (whole) pieces[count - 1] = behind;
  TUTTI_ASSIGN(const std::size_t got, link.bytes->read(std::span(pieces).first(count)));
  const std::size_t landed = std::min(got, direct);
  link.inbox_end += got - landed;
  if (landed > 0) {
    link.payload_left -= landed;
    if (link.payload_left == 0) TUTTI_TRY(end_payload(index));
  }
  return Taken{direct + (whole ? behind.iov_len : 0), got};
}

[[gnu::noinline]] bool MessageEngine::Core::take_put_events() {
  bool any = false;
  while (const auto event = puts_->next_event()) {
    any = true;
    if (event->kind == PutLink::Event::Kind::kLanded)
      receiver_.on_landed(event->number);
    else
      sender_.on_put_done(*static_cast<Transfer*>(event->owner));
  }
  return any;
}

std::byte* MessageEngine::Core::landing(std::size_t index) {
  switch (links_[index].frame.type) {
    case FrameType::kBreak:
      return offender_.data();
    case FrameType::kClearToSend:
      return key_.data();
    default:
      return receiver_.landing(index);
  }
}

Status MessageEngine::Core::parse_inbox(std::size_t index) {
  Link& link = links_[index];
  while (const std::size_t available = link.inbox_end - link.inbox_begin) {
    if (link.payload_left > 0) {
      TUTTI_TRY(take_payload(index, available));
      continue;
    }
    if (link.departed) return make_error(Code::kPeerFailed, "more after its goodbye");
    TUTTI_ASSIGN(const bool whole, parse_header(link, available));
    if (!whole) break;
    TUTTI_TRY(take_frame(index));
  }
  link.close_ranks();
  return ok_status();
}

/// Whether a whole header was there.
Result<bool> MessageEngine::Core::parse_header(Link& link, std::size_t available) {
  const std::byte* const at = link.inbox.data() + link.inbox_begin;
  if (available < kBriefHeaderBytes) return false;
  const std::span<const std::byte, kBriefHeaderBytes> begin(at, kBriefHeaderBytes);
  TUTTI_ASSIGN(const std::size_t length, header_length(begin));
  if (available < length) return false;
  link.inbox_begin += length;
  if (length == kBriefHeaderBytes) {
    TUTTI_TRY(decode_brief(begin, link.eager));
    link.frame = link.eager;
  } else {
    TUTTI_ASSIGN(link.frame, decode(std::span<const std::byte, kHeaderBytes>(at, kHeaderBytes)));
    if (link.frame.type == FrameType::kEager) link.eager = link.frame;
  }
  return true;
}

Status MessageEngine::Core::take_payload(std::size_t index, std::size_t available) {
  Link& link = links_[index];
  const std::size_t bytes = std::min(available, link.payload_left);
  if (std::byte* const place = landing(index))
    std::memcpy(place + (link.frame.payload - link.payload_left),
                link.inbox.data() + link.inbox_begin, bytes);
  link.inbox_begin += bytes;
  link.payload_left -= bytes;
  return link.payload_left == 0 ? end_payload(index) : ok_status();
}

Status MessageEngine::Core::take_frame(std::size_t index) {
  Link& link = links_[index];
  const Frame& frame = link.frame;
  if (index > 0 && frame.type != FrameType::kData && frame.type != FrameType::kGoodbye)
    return make_error(Code::kPeerFailed, "a frame of type {} on a link for data",
                      static_cast<int>(frame.type));
  switch (frame.type) {
    case FrameType::kEager:
      TUTTI_TRY(receiver_.on_eager(frame));
      break;
    case FrameType::kData:
      TUTTI_TRY(receiver_.on_data(index, frame));
      break;
    case FrameType::kReadyToSend:
      return receiver_.on_ready_to_send(frame);
    case FrameType::kClearToSend:
      break;
    case FrameType::kCredit:
      return sender_.on_credit(frame);
    case FrameType::kBreak:
      if (frame.payload == 0) return take_break(frame, std::nullopt);
      break;
    case FrameType::kGoodbye:
      link.departed = true;
      return ok_status();
  }
  link.payload_left = frame.payload;
  return link.payload_left == 0 ? end_payload(index) : ok_status();
}

Status MessageEngine::Core::end_payload(std::size_t index) {
  const Frame& frame = links_[index].frame;
  if (frame.type == FrameType::kClearToSend)
    return sender_.on_clear_to_send(frame, std::span(key_).first(frame.payload));
  if (frame.type != FrameType::kBreak) return receiver_.landed(index, frame.payload);
  TUTTI_ASSIGN(const Frame offender, decode(offender_));
  return take_break(frame, offender);
}

[[gnu::noinline]] Status MessageEngine::Core::take_break(const Frame& frame,
                                                         const std::optional<Frame>& offender) {
  return frame.reason == BreakReason::kSendCancelled ? receiver_.on_break(frame)
                                                     : sender_.on_break(frame, offender);
}

// --- the end ---

// Nothing moved: why? Returns whether something moved after all.
[[gnu::noinline]] bool MessageEngine::Core::look_around() {
  if (dead_) return false;
  Status well = ok_status();
  bool again = false;
  for (Link& link : links_) {
    const auto checked = link.bytes->check();
    if (!checked)
      well = checked.error();
    else
      again |= *checked;
    if (link.departed && link.write_error) well = Error(*link.write_error);
  }
  waker_.prepare(links_);
  if (well) return again && pump();
  while (!dead_ && pump_input()) {  // what it said last is still worth hearing
  }
  if (!dead_) die(well.error());
  return true;
}

[[gnu::noinline]] void MessageEngine::Core::die(const Error& why) {
  const bool departed = has_departed();
  dead_ = departed ? peer_error(Code::kPeerFailed, options_.peer,
                                "rank {} has left: it closed its {} connection", options_.peer,
                                options_.link_name)
                   : peer_error(Code::kPeerFailed, options_.peer,
                                "rank {} failed: its {} connection broke: {}", options_.peer,
                                options_.link_name, why.what);
  dead_->os_errno = why.os_errno;
  for (Link& link : links_) {
    link.bytes->shutdown();
    link.out.clear();
    link.payload_left = 0;
  }
  blocked_.store(false, std::memory_order_relaxed);
  sender_.close(*dead_);
  receiver_.close(*dead_, departed);
}

Status MessageEngine::Core::health() {
  std::scoped_lock lock(mutex_);
  if (!dead_ && !pump()) look_around();
  return dead_ ? Status(Error(*dead_)) : ok_status();
}

MessageEngine::Core::~Core() {
  if (!dead_) say_last_words();
  const Deadline deadline = Deadline::after(kLinger);
  while (!finish_links() && !deadline.passed()) ::poll(nullptr, 0, 1);
}

// No link is closed before all have arrived: the peer takes a link that breaks for a failure.
bool MessageEngine::Core::finish_links() {
  bool finished = true;
  for (Link& link : links_) finished &= link.bytes->finish();
  return finished;
}

void MessageEngine::Core::say_last_words() {
  const Error closed =
      peer_error(Code::kAborted, options_.peer, "this rank closed its {} connection to rank {}",
                 options_.link_name, options_.peer);
  sender_.close(closed);
  receiver_.close(closed, false);
  const Deadline deadline = Deadline::after(kLastWords);
  bool said_goodbye = false;
  const auto broke = [](const Link& link) { return link.write_error.has_value(); };
  while (!dead_ && std::ranges::none_of(links_, broke)) {
    pump_output();
    const bool has_room =
        std::ranges::all_of(links_, [](const Link& link) { return link.out.has_room(); });
    const auto full =
        std::ranges::find_if(links_, [](const Link& link) { return !link.out.empty(); });
    if (!said_goodbye && has_room) {
      for (Link& link : links_) link.out.add(Frame{.type = FrameType::kGoodbye});
      said_goodbye = true;
    } else if ((full == links_.end() && said_goodbye) || deadline.passed()) {
      break;
    } else if (full != links_.end() && full->bytes->poll_fd() >= 0) {
      pollfd room{full->bytes->poll_fd(), POLLOUT, 0};
      ::poll(&room, 1, 1);
    }
  }
}

// --- the Connection ---

MessageEngine::MessageEngine(std::unique_ptr<ByteLink> link, EngineOptions options) {
  std::vector<std::unique_ptr<ByteLink>> links;
  links.push_back(std::move(link));
  core_ = std::make_unique<Core>(std::move(links), std::move(options));
}
MessageEngine::MessageEngine(std::vector<std::unique_ptr<ByteLink>> links, EngineOptions options)
    : core_(std::make_unique<Core>(std::move(links), std::move(options))) {}
MessageEngine::~MessageEngine() = default;

void MessageEngine::send(const StreamId& stream, const MessageTag& tag,
                         std::span<const std::byte> data, Transfer& transfer) {
  core_->send(stream, tag, data, transfer, false);
}
void MessageEngine::send_with_next(const StreamId& stream, const MessageTag& tag,
                                   std::span<const std::byte> data, Transfer& transfer) {
  core_->send(stream, tag, data, transfer, true);
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
bool MessageEngine::carries_device_memory() const { return core_->carries_device_memory(); }
std::span<std::byte> MessageEngine::mapped() const { return core_->mapped(); }
pid_t MessageEngine::local_pid() const { return core_->local_pid(); }

}  // namespace tutti
