#include "transports/switch/way_up.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include <poll.h>
#include <sys/socket.h>

#include "src/base/result.hpp"

namespace tutti::in_network {

Result<WayUp> WayUp::begin(const WayUpOptions& options, TimePoint now) {
  TUTTI_ASSIGN(Fd fd, start_connect(options.above));
  return WayUp(options, std::move(fd), now);
}

WayUp::WayUp(const WayUpOptions& options, Fd fd, TimePoint now)
    : options_(options),
      fd_(std::move(fd)),
      since_(now),
      handshake_(std::make_unique<Handshake>(
          HandshakeOptions{.role = HandshakeRole::kInitiator,
                           .purpose = Purpose::kControl,
                           .self = {.token = options_.self, .group = kSwitchGroup},
                           .key = options_.key,
                           .peer_name = "the switch above",
                           .remedy = kOneKey})) {}

bool WayUp::wants_write() const {
  return stage_ == Stage::kConnects ||
         (stage_ == Stage::kShakesHands && !handshake_->output().empty());
}

bool WayUp::is_writable() const {
  pollfd state{.fd = fd(), .events = POLLOUT, .revents = 0};
  return ::poll(&state, 1, 0) == 1;
}

Status WayUp::advance(TimePoint now) {
  if (stage_ == Stage::kConnects) {
    if (!is_writable()) return ok_status();
    TUTTI_TRY(finish_connect(fd(), options_.above));
    stage_ = Stage::kShakesHands;
  }
  if (stage_ == Stage::kShakesHands) TUTTI_TRY(shake(now));
  if (stage_ == Stage::kHasJoined) return read();
  return ok_status();
}

/// Joins at the end.
Status WayUp::shake(TimePoint now) {
  TUTTI_TRY(tutti::advance(fd(), *handshake_));
  if (handshake_->state() != Handshake::State::kDone || !handshake_->output().empty())
    return ok_status();
  const Blob message = encode(options_.join);
  // A new stream has room for it.
  const ssize_t sent = ::send(fd(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(message.size()))
    return make_error(Code::kPeerFailed, "it takes no join: {}",
                      sent < 0 ? std::strerror(errno) : "its stream is full");
  stage_ = Stage::kHasJoined;
  since_ = now;
  return ok_status();
}

Status WayUp::read() {
  std::array<std::byte, kMostControlBytes + sizeof(std::uint32_t)> room;
  const ssize_t got = recv(fd(), room.data(), room.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return ok_status();
  if (welcome_ || got <= 0)
    return make_error(Code::kUnavailable,
                      "it has ended the session: it was stopped, or another leaf has left");
  received_.insert(received_.end(), room.begin(), room.begin() + got);
  TUTTI_ASSIGN(const auto message, first_message(received_));
  if (!message) return ok_status();
  TUTTI_ASSIGN(Welcome welcome, decode_welcome(*message, options_.key));
  if (!welcome.refusal.empty())
    return make_error(Code::kUnavailable,
                      "it refuses this leaf, {} of {}: {} (its workers are the leaves: start the "
                      "switch of each with this --above)",
                      options_.join.worker, options_.join.workers, welcome.refusal);
  welcome_ = std::move(welcome);
  return ok_status();
}

Status WayUp::check_patience(TimePoint now) const {
  if (welcome_) return ok_status();
  const bool has_joined = stage_ == Stage::kHasJoined;
  const Nanos patience = has_joined ? options_.welcome_patience : options_.shake_patience;
  if (now - since_ <= patience) return ok_status();
  return make_error(Code::kTimeout, "it {} for {} ms",
                    has_joined ? "has not welcomed this leaf" : "has not answered",
                    std::chrono::duration_cast<std::chrono::milliseconds>(patience).count());
}

}  // namespace tutti::in_network
