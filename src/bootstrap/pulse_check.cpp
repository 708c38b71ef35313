#include "src/bootstrap/pulse_check.hpp"

#include <cerrno>
#include <utility>

#include <sys/epoll.h>

#include "src/base/result.hpp"

namespace tutti {
namespace {
// Patience is counted in ticks, so that a process that was itself stopped does not take its own
// absence for the peer's.
constexpr int kTicks = 4;
constexpr std::size_t kMaxNotice = 64 << 10;

bool is_unreachable(int error) {
  return error == EHOSTUNREACH || error == ENETUNREACH || error == ENETDOWN || error == ETIMEDOUT;
}
}  // namespace

std::shared_ptr<PulseCheck> PulseCheck::begin(Service& service, const SocketAddress& door,
                                              HandshakeOptions handshake, Nanos patience,
                                              Events events) {
  auto check = std::make_shared<PulseCheck>(service, door, std::move(handshake), patience,
                                            std::move(events));
  service.post([weak = std::weak_ptr(check)] {
    if (const auto self = weak.lock()) self->tick();
  });
  return check;
}

PulseCheck::PulseCheck(Service& service, const SocketAddress& door, HandshakeOptions handshake,
                       Nanos patience, Events events)
    : service_(service),
      door_(door),
      patience_(patience),
      events_(std::move(events)),
      handshake_(std::move(handshake)) {}

PulseCheck::~PulseCheck() {
  service_.cancel(tick_);
  service_.unwatch(watch_);
  if (channel_) channel_->close();
}

void PulseCheck::tick() {
  if (ticks_++ == kTicks)
    return end(make_error(Code::kTimeout, "{} does not answer", to_text(door_)));
  tick_ = service_.at(Clock::now() + patience_ / kTicks, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->tick();
  });
  if (fd_ || channel_) return;
  if (Status fine = dial(); !fine) fail(fine.error());
}

Status PulseCheck::dial() {
  TUTTI_ASSIGN(fd_, start_connect(door_));
  TUTTI_ASSIGN(watch_,
               service_.watch(fd_.get(), EPOLLOUT, [weak = weak_from_this()](std::uint32_t) {
                 if (const auto self = weak.lock()) self->go_on();
               }));
  return ok_status();
}

void PulseCheck::go_on() {
  Status fine = meet();
  if (fine && handshake_.state() == Handshake::State::kDone) fine = ask();
  if (!fine) fail(fine.error());
}

Status PulseCheck::meet() {
  if (!connected_) {
    TUTTI_TRY(finish_connect(fd_.get(), door_));
    connected_ = true;
    service_.rewatch(watch_, EPOLLIN);
  }
  return advance(fd_.get(), handshake_);  // its 96 bytes fit a fresh socket
}

Status PulseCheck::ask() {
  service_.unwatch(watch_);
  const auto weak = weak_from_this();
  TUTTI_ASSIGN(channel_, Channel::open(service_, std::move(fd_), kMaxNotice,
                                       {.on_frame =
                                            [weak](const Frame& frame) {
                                              if (const auto self = weak.lock()) self->hear(frame);
                                            },
                                        .on_end =
                                            [weak](const Error& why) {
                                              if (const auto self = weak.lock()) self->end(why);
                                            }}));
  channel_->send(FrameType::kPulse);
  return ok_status();
}

void PulseCheck::hear(const Frame& frame) {
  if (frame.type == FrameType::kHeartbeat) return;
  service_.cancel(tick_);
  channel_->close();
  events_.on_answer(frame);
}

/// A host that cannot be reached is silent: the next tick tries again.
void PulseCheck::fail(const Error& why) {
  if (connected_ || !is_unreachable(why.os_errno)) return end(why);
  service_.unwatch(watch_);
  fd_.reset();
}

void PulseCheck::end(const Error& why) {
  service_.cancel(tick_);
  service_.unwatch(watch_);
  fd_.reset();
  if (channel_) channel_->close();
  events_.on_failure(why);
}

}  // namespace tutti
