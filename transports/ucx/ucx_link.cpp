#include "transports/ucx/ucx_link.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "src/base/bytes.hpp"
#include "src/base/log.hpp"
#include "src/base/result.hpp"

namespace tutti::ucx {
namespace {

// One message of the stream at most: so short that UCX takes it as it is, and that reading and
// writing overlap.
constexpr std::size_t kMostOfStream = 8000;
// Messages that UCX has not done with.
constexpr std::size_t kMostUnderWay = 64;
// Messages that arrive before an earlier one, beside the bytes of the ring.
constexpr std::size_t kMostEarly = 1024;
// The first message of a generation. UCX holds the first one of more than a few bytes back until
// the peer has answered, and none after it.
constexpr std::array<std::byte, 1024> kGreeting{};
// Sockets take so much at once, unless more is waiting there. Of more, UCX is asked whether it has
// left; over TCP that takes a call of the peer.
constexpr std::uint64_t kSureToLeave = 16 << 10;
// The peer hears how far its stream was read after a part of the ring.
constexpr std::uint64_t kTellPart = 4;
// The socket is asked once in so many calls while all is well.
constexpr std::uint32_t kCallsApart = 64;
constexpr Nanos kLooksApart = std::chrono::microseconds(100);
// A side that has found nothing so often may be about to sleep; it asks UCX again for a wake-up
// after so many more.
constexpr std::uint32_t kFruitless = 64;
constexpr int kMostArms = 16;
// The last messages of a peer that has closed the connection come within this time after its
// socket.
constexpr Nanos kLastMessages = std::chrono::seconds(2);
constexpr Nanos kFirstPause = std::chrono::milliseconds(10);
constexpr Nanos kLongestPause = std::chrono::seconds(1);

/// What goes before the data of a message.
struct Word {
  std::uint64_t cookie = 0;    ///< that the receiver has told
  std::uint64_t number = 0;    ///< in this generation, from 0
  std::uint64_t consumed = 0;  ///< bytes of the receiver's stream that the sender has read
};
static_assert(sizeof(Word) == Channel::kHeaderBytes);
static_assert(std::endian::native == std::endian::little, "words travel as they lie in memory");

}  // namespace

// --- the start ---

UcxLink::UcxLink(LinkOptions options)
    : options_(std::move(options)),
      incoming_(options_.ring_bytes),
      outgoing_(options_.ring_bytes) {}

UcxLink::~UcxLink() = default;

Result<std::unique_ptr<UcxLink>> UcxLink::create(LinkOptions options) {
  std::unique_ptr<UcxLink> link(new UcxLink(std::move(options)));
  TUTTI_TRY(link->prepare());
  return link;
}

Status UcxLink::prepare() {
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return system_error(Code::kUnavailable, errno, "waiting for several descriptors");
  watch(options_.control.get());
  return open_generation(1);
}

void UcxLink::watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

// Both wait for each other to be ready: until then each may need the other's progress. What says so
// is the socket, which needs no further call here: so nobody waits for one that has gone on.
Status UcxLink::await_channel(Deadline deadline) {
  for (;;) {
    TUTTI_TRY(advance());
    TUTTI_TRY(look_around());
    if (is_open() && said_ready_ && peer_ready_ == generation_ && control_out_.empty())
      return ok_status();
    if (control_ended_)
      return make_error(Code::kPeerFailed, "{} closed the connection before its UCX was connected",
                        options_.peer);
    if (deadline.passed())
      return make_error(Code::kTimeout,
                        "UCX has not connected to {} in time, by {}{}{}; see UCX_TLS and "
                        "UCX_NET_DEVICES",
                        options_.peer, is_open() ? channel_->lanes() : "no channel",
                        reason_.empty() ? "" : ": ", reason_);
    pollfd news{options_.control.get(), POLLIN, 0};
    ::poll(&news, 1, 1);
  }
}

// --- the channel ---

// The old one ends before anything is said: what came by it is known from then on.
Status UcxLink::open_generation(std::uint32_t generation) {
  channel_.reset();
  generation_ = generation;
  cookie_ = options_.random();
  next_out_ = next_in_ = 0;
  early_.clear();
  early_bytes_ = 0;
  armed_ = said_ready_ = false;
  TUTTI_ASSIGN(channel_, Channel::open(options_.context,
                                       [this](auto header, auto data) { take(header, data); }));
  watch(channel_->fd());
  say(Hello{.generation = generation_,
            .notices_failures = options_.context->notices_failures(),
            .cookie = cookie_,
            .ring_bytes = incoming_.size(),
            .arrived = arrived_,
            .read = read_,
            .worker = channel_->address()});
  told_ = read_;
  return peer_ && peer_->generation == generation_ ? connect_channel() : ok_status();
}

Status UcxLink::connect_channel() {
  posted_ = peer_->arrived;
  TUTTI_TRY(channel_->connect(peer_->worker,
                              peer_->notices_failures && options_.context->notices_failures()));
  send(kGreeting);
  return ok_status();
}

bool UcxLink::is_open() const {
  return channel_ && channel_->is_connected() && !channel_->failure();
}

/// A channel that failed is replaced after a pause, or as soon as the peer has replaced its own.
Status UcxLink::look_at_channel() {
  const TimePoint now = options_.now();
  if (channel_ && channel_->failure()) {
    reason_ = *channel_->failure();
    if (std::exchange(moved_then_, arrived_ + consumed_) != arrived_ + consumed_) failures_ = 0;
    channel_.reset();
    if (++failures_ > options_.most_failures)
      return make_error(Code::kPeerFailed,
                        "UCX carries nothing to {} any more after {} tries, though its process "
                        "lives: {}",
                        options_.peer, failures_, reason_);
    open_at_ = now + std::min<Nanos>(kFirstPause * (1 << failures_), kLongestPause);
  }
  if (channel_ || now < open_at_) return ok_status();
  log_warn("", "UCX's connection to {} failed: {}; it is opened again", options_.peer, reason_);
  return open_generation(generation_ + 1);
}

void UcxLink::reopen() {
  if (dead_ || control_ended_) {
    channel_.reset();
    return;
  }
  if (Status opened = open_generation(generation_ + 1); !opened) dead_ = std::move(opened).error();
  flush_control();
}

// --- the control socket ---

void UcxLink::say(const ControlMessage& message) {
  const Blob bytes = encode(message);
  control_out_.insert(control_out_.end(), bytes.begin(), bytes.end());
}

void UcxLink::flush_control() {
  while (!control_out_.empty() && !control_ended_) {
    const ssize_t sent = ::send(options_.control.get(), control_out_.data(), control_out_.size(),
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) break;
    if (sent < 0) return end_control();  // what the peer said last may still be there to read
    control_out_.erase(control_out_.begin(), control_out_.begin() + sent);
  }
}

void UcxLink::end_control() {
  if (!std::exchange(control_ended_, true)) ended_at_ = options_.now();
}

Status UcxLink::read_control() {
  std::array<std::byte, 4096> buffer;
  for (;;) {
    const ssize_t got = ::recv(options_.control.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) break;
    if (got <= 0) {
      end_control();
      break;
    }
    control_in_.insert(control_in_.end(), buffer.begin(), buffer.begin() + got);
  }
  std::size_t taken = 0;
  for (;;) {
    TUTTI_ASSIGN(const auto decoded, decode_control(std::span(control_in_).subspan(taken)));
    if (!decoded) break;
    taken += decoded->bytes;
    TUTTI_TRY(obey(decoded->message));
  }
  control_in_.erase(control_in_.begin(), control_in_.begin() + static_cast<std::ptrdiff_t>(taken));
  return ok_status();
}

Status UcxLink::obey(const ControlMessage& message) {
  if (const auto* hello = std::get_if<Hello>(&message)) return take_hello(*hello);
  if (const auto* ready = std::get_if<Ready>(&message)) {
    peer_ready_ = std::max(peer_ready_, ready->generation);
    return ok_status();
  }
  peer_wrote_ = std::get<Bye>(message).written;
  return ok_status();
}

Status UcxLink::take_hello(const Hello& hello) {
  if (hello.ring_bytes != outgoing_.size())
    return make_error(Code::kPeerFailed,
                      "its ring has {} bytes, this side's {}; use one version everywhere",
                      hello.ring_bytes, outgoing_.size());
  if (peer_ && hello.generation <= peer_->generation)
    return make_error(Code::kPeerFailed, "it went from UCX generation {} to {}", peer_->generation,
                      hello.generation);
  if (hello.arrived < consumed_ || hello.arrived > posted_)
    return make_error(Code::kPeerFailed, "it has {} bytes of a stream of which {} to {} were sent",
                      hello.arrived, consumed_, posted_);
  peer_ = hello;
  consumed_ = std::max(consumed_, hello.read);  // a message may have overtaken this
  if (hello.generation > generation_) return open_generation(hello.generation);
  return hello.generation == generation_ ? connect_channel() : ok_status();
}

// --- messages ---

void UcxLink::send(std::span<const std::byte> data) {
  const Word word{.cookie = peer_->cookie, .number = next_out_++, .consumed = read_};
  Channel::Header header;
  std::memcpy(header.data(), &word, sizeof word);
  channel_->send(header, data, posted_);
  told_ = read_;
}

/// What comes from anywhere: only who holds the cookie is heard.
void UcxLink::take(std::span<const std::byte> header, std::span<const std::byte> data) {
  Word word;
  if (refused_ || header.size() != sizeof word) return;
  std::memcpy(&word, header.data(), sizeof word);
  if (word.cookie != cookie_) return;
  const auto refuse = [&](Error why) { refused_ = std::move(why); };
  if (word.number < next_in_ || early_.contains(word.number))
    return refuse(make_error(Code::kPeerFailed, "it sent message {} twice", word.number));
  if (word.number > next_in_) {
    if (word.number - next_in_ > kMostEarly || data.size() > incoming_.size() - early_bytes_)
      return refuse(make_error(Code::kPeerFailed, "it sent message {} before {}, with {} bytes",
                               word.number, next_in_, data.size()));
    early_bytes_ += data.size();
    early_.emplace(word.number, Early{word.consumed, Blob(data.begin(), data.end())});
    return;
  }
  Status taken = take_in_order(word.consumed, data);
  for (auto next = early_.begin(); taken && next != early_.end() && next->first == next_in_;
       next = early_.erase(next)) {
    early_bytes_ -= next->second.data.size();
    taken = take_in_order(next->second.consumed, next->second.data);
  }
  if (!taken) refuse(std::move(taken).error());
}

Status UcxLink::take_in_order(std::uint64_t consumed, std::span<const std::byte> data) {
  const bool is_greeting = next_in_++ == 0;
  if (consumed < consumed_ || consumed > posted_)
    return make_error(Code::kPeerFailed,
                      "it has read {} bytes of a stream of which {} to {} were sent", consumed,
                      consumed_, posted_);
  consumed_ = consumed;
  if (is_greeting) return ok_status();
  if (data.size() > incoming_.size() - (arrived_ - read_))
    return make_error(Code::kPeerFailed, "it sent {} bytes where there was room for {}",
                      data.size(), incoming_.size() - (arrived_ - read_));
  const std::size_t at = arrived_ % incoming_.size();
  const std::size_t first = std::min(data.size(), incoming_.size() - at);
  if (first > 0) std::memcpy(incoming_.data() + at, data.data(), first);
  if (first < data.size()) std::memcpy(incoming_.data(), data.data() + first, data.size() - first);
  arrived_ += data.size();
  return ok_status();
}

void UcxLink::push_stream() {
  if (!is_open()) return;
  while (posted_ < written_ && channel_->under_way() < kMostUnderWay && !channel_->failure()) {
    const std::size_t from = posted_ % outgoing_.size();
    const std::size_t bytes =
        std::min<std::uint64_t>({written_ - posted_, outgoing_.size() - from, kMostOfStream});
    send(std::span(outgoing_).subspan(from, bytes));
    posted_ += bytes;
  }
}

void UcxLink::tell_consumed() {
  if (read_ - told_ < incoming_.size() / kTellPart || !is_open() ||
      channel_->under_way() >= kMostUnderWay)
    return;
  send({});
}

/// Whether all that was written leaves without another call here.
bool UcxLink::has_left() const {
  return posted_ == written_ && is_open() && channel_->under_way() == 0 &&
         (posted_ - consumed_ <= kSureToLeave || channel_->is_at_rest());
}

/// Up to where the copy of the ring may be written again.
std::uint64_t UcxLink::freed() const {
  const auto reads = channel_ ? channel_->oldest_mark() : std::nullopt;
  return reads ? std::min(*reads, consumed_) : consumed_;
}

// --- a call ---

bool UcxLink::holds_back() const {
  if (dead_ || control_ended_) return false;
  return !has_left() || !control_out_.empty();
}

Status UcxLink::advance() {
  if (dead_) return Error(*dead_);
  const auto all = [this]() -> Status {
    if (channel_ && channel_->progress()) armed_ = false;
    if (refused_) return Error(*refused_);
    if (is_time_to_look()) TUTTI_TRY(look_around());
    push_stream();
    tell_consumed();
    if (is_open() && channel_->under_way() == 0) {
      if (next_in_ > 0 && !std::exchange(said_ready_, true)) {
        say(Ready{generation_});
        if (log_enabled(LogLevel::kInfo, Subsystem::kNet))
          log_info(Subsystem::kNet, "", "UCX reaches {} by {}", options_.peer, channel_->lanes());
      }
      if (posted_ == written_ && posted_ - consumed_ > kSureToLeave) channel_->flush();
    }
    flush_control();
    return ok_status();
  };
  Status done = all();
  if (!done) dead_ = done.error();
  return done;
}

/// Looking costs system calls: seldom while all is well, and more often while it is not.
bool UcxLink::is_time_to_look() {
  if (++calls_ % kCallsApart == 0) return true;
  return !is_open() && options_.now() - looked_at_ >= kLooksApart;
}

Status UcxLink::look_around() {
  looked_at_ = options_.now();
  TUTTI_TRY(read_control());
  if (!control_ended_) TUTTI_TRY(look_at_channel());
  flush_control();
  return ok_status();
}

Result<std::size_t> UcxLink::write(std::span<const iovec> pieces) {
  if (dead_) return Error(*dead_);
  std::size_t total = 0;
  for (const iovec& piece : pieces) {
    const auto* data = static_cast<const std::byte*>(piece.iov_base);
    std::size_t done = 0;
    for (const std::uint64_t end = freed() + outgoing_.size();
         done < piece.iov_len && written_ < end;) {
      const std::size_t at = written_ % outgoing_.size();
      const std::size_t bytes =
          std::min<std::uint64_t>({piece.iov_len - done, outgoing_.size() - at, end - written_});
      std::memcpy(outgoing_.data() + at, data + done, bytes);
      done += bytes;
      written_ += bytes;
    }
    total += done;
    if (done < piece.iov_len) break;
  }
  push_stream();
  if (total == 0) TUTTI_TRY(advance());
  return total;
}

/// Once the socket has ended: whether nothing more is to be expected of the stream. The last
/// messages of a peer that has closed the connection may come later than the end of its socket.
bool UcxLink::has_all_of_the_stream() const {
  return !peer_wrote_ || arrived_ >= *peer_wrote_ || !is_open() ||
         options_.now() - ended_at_ > kLastMessages;
}

Result<std::size_t> UcxLink::read(std::span<const iovec> pieces) {
  Status well = advance();
  std::size_t total = 0;
  for (const iovec& piece : pieces) {
    auto* data = static_cast<std::byte*>(piece.iov_base);
    std::size_t done = 0;
    while (done < piece.iov_len && read_ < arrived_) {
      const std::size_t at = read_ % incoming_.size();
      const std::size_t bytes =
          std::min<std::uint64_t>({piece.iov_len - done, incoming_.size() - at, arrived_ - read_});
      std::memcpy(data + done, incoming_.data() + at, bytes);
      done += bytes;
      read_ += bytes;
    }
    total += done;
    if (done < piece.iov_len) break;
  }
  if (total > 0) {
    fruitless_ = 0;
    tell_consumed();
    return total;
  }
  if (!well) return std::move(well).error();
  if (control_ended_ && read_ == arrived_) {
    if (channel_) channel_->progress();
    if (refused_) return Error(*refused_);
    if (read_ == arrived_ && has_all_of_the_stream())
      return make_error(Code::kPeerFailed, "the socket beside its UCX endpoint has ended");
  }
  return total;
}

Result<bool> UcxLink::check() {
  if (dead_) return Error(*dead_);
  const bool may_sleep = ++fruitless_ >= kFruitless;
  if (Status well = may_sleep || is_time_to_look() ? look_around() : ok_status(); !well) {
    dead_ = well.error();
    return std::move(well).error();
  }
  if (!may_sleep || !channel_ || (armed_ && fruitless_ % kFruitless != 0)) return false;
  armed_ = false;
  for (int tries = 0; tries < kMostArms && !armed_; ++tries) {
    armed_ = channel_->arm();
    if (!armed_) channel_->progress();
  }
  return true;
}

// --- the end ---

// The peer hears how much there was, and so knows when it has all of it.
bool UcxLink::finish() {
  read_ = arrived_;
  if (!advance() || control_ended_) return true;
  read_ = arrived_;
  if (posted_ < written_) return false;
  if (!std::exchange(said_bye_, true)) say(Bye{written_});
  flush_control();
  return has_left() && control_out_.empty();
}

void UcxLink::shutdown() {
  if (!dead_) dead_ = make_error(Code::kPeerFailed, "the UCX connection was shut down");
  channel_.reset();
  ::shutdown(options_.control.get(), SHUT_RDWR);
}

}  // namespace tutti::ucx
