#include "src/bootstrap/channel.hpp"

#include <array>
#include <cerrno>
#include <new>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "src/base/result.hpp"

namespace tutti {
namespace {
// One turn of a connection moves about this much, so that none keeps the thread from the others.
constexpr std::size_t kTurnBytes = 64 * 1024;
constexpr int kTurns = 4;
}  // namespace

Result<std::shared_ptr<Channel>> Channel::open(Service& service, Fd fd, std::size_t max_body,
                                               Events events) {
  auto channel = std::make_shared<Channel>(service, std::move(fd), max_body, std::move(events));
  TUTTI_ASSIGN(channel->watch_, service.watch(channel->fd_.get(), EPOLLIN,
                                              [weak = std::weak_ptr(channel)](std::uint32_t what) {
                                                if (const auto self = weak.lock())
                                                  self->on_events(what);
                                              }));
  return channel;
}

Channel::Channel(Service& service, Fd fd, std::size_t max_body, Events events)
    : service_(service), fd_(std::move(fd)), max_body_(max_body), events_(std::move(events)) {}

Channel::~Channel() { close(); }

void Channel::close() {
  events_ = {};
  if (!fd_) return;
  service_.unwatch(watch_);
  // The peer must hear of the end even while a forked child has a copy of the socket. The child,
  // which has no service thread, drops only its copy.
  if (service_.on_thread()) ::shutdown(fd_.get(), SHUT_WR);
  fd_.reset();
  output_.clear();
}

void Channel::finish() {
  events_ = {};
  finishing_ = true;
  if (output_.empty()) {
    close();
  } else {
    // The watch holds a weak reference; until the output is out, this timer holds a strong one.
    service_.at(Clock::now() + std::chrono::seconds(1),
                [self = shared_from_this()] { self->close(); });
  }
}

void Channel::send(FrameBytes frame) {
  if (!fd_ || finishing_) return;
  output_.push_back(std::move(frame));
  if (!watching_output_) write_some();
}

int Channel::look() {
  const auto keep = shared_from_this();
  if (fd_) read_some();
  silent_looks_ = std::exchange(heard_, false) ? 0 : silent_looks_ + 1;
  return silent_looks_;
}

void Channel::on_events(std::uint32_t events) {
  const auto keep = shared_from_this();  // an event may drop the last owner
  try {
    if ((events & EPOLLOUT) != 0) write_some();
    if (fd_ && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read_some();
  } catch (const std::bad_alloc&) {  // nobody above this thread would catch it
    service_.release_reserve();
    end(make_error(Code::kUnavailable, "no memory is left for what the connection carried"));
  }
}

void Channel::read_some() {
  for (int turn = 0; turn < kTurns && fd_; ++turn) {
    std::array<std::byte, kTurnBytes> buffer;
    const ssize_t n = ::recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n == 0) return end(make_error(Code::kPeerFailed, "the connection ended"));
    if (n < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return;
      return end(system_error(Code::kPeerFailed, errno, "the connection broke"));
    }
    heard_ = true;
    input_.insert(input_.end(), buffer.begin(), buffer.begin() + n);
    if (!parse()) return;
    if (static_cast<std::size_t>(n) < buffer.size()) return;
  }
}

/// Hands out all whole frames; false when the channel is over.
bool Channel::parse() {
  while (fd_ && input_.size() - parsed_ >= kFrameHeaderBytes) {
    const auto rest = std::span<const std::byte>(input_).subspan(parsed_);
    const auto header = decode_header(rest.first(kFrameHeaderBytes));
    if (!header || header->body_bytes > max_body_) {
      end(make_error(Code::kPeerFailed, "the connection carried a malformed frame"));
      return false;
    }
    if (rest.size() < kFrameHeaderBytes + header->body_bytes) break;
    parsed_ += kFrameHeaderBytes + header->body_bytes;
    if (events_.on_frame) {
      const auto handler = events_.on_frame;  // it may be replaced while it runs
      handler(
          {header->type, header->sequence, rest.subspan(kFrameHeaderBytes, header->body_bytes)});
    }
  }
  if (!fd_) return false;
  input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(parsed_));
  parsed_ = 0;
  if (input_.empty() && input_.capacity() > kTurnBytes) input_.shrink_to_fit();
  return true;
}

void Channel::write_some() {
  for (int turn = 0; turn < kTurns && fd_ && !output_.empty(); ++turn) {
    std::array<iovec, 16> pieces;
    std::size_t count = 0;
    for (const auto& frame : output_) {
      if (count == pieces.size()) break;
      const std::size_t skip = count == 0 ? front_sent_ : 0;
      // sendmsg does not write through iov_base
      pieces[count++] = {const_cast<std::byte*>(frame->data()) + skip, frame->size() - skip};
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    const ssize_t n = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) break;
      if (finishing_) return close();
      break;  // reading finds the end and tells why, after what the peer said last
    }
    front_sent_ += static_cast<std::size_t>(n);
    while (!output_.empty() && front_sent_ >= output_.front()->size()) {
      front_sent_ -= output_.front()->size();
      output_.pop_front();
    }
  }
  if (!fd_) return;
  watch_output(!output_.empty());
  if (finishing_ && output_.empty()) close();
}

void Channel::watch_output(bool on) {
  if (on == watching_output_) return;
  watching_output_ = on;
  service_.rewatch(watch_, on ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void Channel::end(Error error) {
  const auto on_end = std::move(events_.on_end);
  close();
  if (on_end) on_end(error);
}

}  // namespace tutti
