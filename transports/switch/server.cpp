// Connections: who comes, who goes. server_sessions.cpp has the sessions.
#include "transports/switch/server.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>

#include "src/base/result.hpp"

namespace tutti::in_network {
namespace {

constexpr Nanos kHandshakePatience = std::chrono::seconds(5);
constexpr Nanos kLookAfterEvery = std::chrono::milliseconds(200);

Status watch(int events, int fd) {
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
  if (epoll_ctl(events, EPOLL_CTL_ADD, fd, &event) == 0) return ok_status();
  return make_error(Code::kUnavailable, "epoll: {}", std::strerror(errno));
}

}  // namespace

Result<std::unique_ptr<SwitchServer>> SwitchServer::create(ServerOptions options) {
  std::unique_ptr<SwitchServer> server(new SwitchServer(std::move(options)));
  TUTTI_TRY(server->open());
  return server;
}

Status SwitchServer::open() {
  id_ = random_u64() | 1;
  sessions_ = std::make_unique<Sessions>(options_.limits);
  events_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  if (!events_) return make_error(Code::kUnavailable, "epoll: {}", std::strerror(errno));
  // A port that is free for TCP may be taken for UDP.
  constexpr int kTries = 16;
  for (int tried = 0; !data_; ++tried) {
    TUTTI_ASSIGN(listener_, listen_on(options_.listen));
    TUTTI_ASSIGN(address_, local_address(listener_.get()));
    auto data = DataPort::open(address_, *sessions_);
    if (data)
      data_ = *std::move(data);
    else if (options_.listen.port != 0 || tried == kTries)
      return std::move(data).error();
  }
  if (options_.above && options_.above.family != address_.family)
    return make_error(Code::kInvalidArgument,
                      "the switch above, {}, is of another family than {}, where this one listens: "
                      "use two addresses of IPv4, or two of IPv6",
                      to_text(options_.above), to_text(address_));
  TUTTI_TRY(watch(events_.get(), listener_.get()));
  return watch(events_.get(), data_->fd());
}

void SwitchServer::say(const std::string& line) const {
  if (options_.say) options_.say(line);
}

ServerCounts SwitchServer::counts() const {
  ServerCounts counts;
  static_cast<PortCounts&>(counts) = data_->counts();
  counts.sessions = opened_;
  counts.open_sessions = open_.size();
  counts.free_slots = sessions_->free_slots();
  for (const auto& [id, open] : open_)
    if (Session* const session = sessions_->find(id))
      counts.each.push_back({id, session->pool().workers(), session->taken()});
  return counts;
}

Result<bool> SwitchServer::serve(int stop, Nanos longest) {
  TUTTI_TRY(watch(events_.get(), stop));
  Result<bool> stopped = serve_until(stop, longest);
  (void)epoll_ctl(events_.get(), EPOLL_CTL_DEL, stop, nullptr);
  return stopped;
}

Result<bool> SwitchServer::serve_until(int stop, Nanos longest) {
  constexpr int kMost = 64, kLongestSleepMs = 100;
  const TimePoint begin = Clock::now();
  for (;;) {
    epoll_event ready[kMost];
    const int count = epoll_wait(events_.get(), ready, kMost, kLongestSleepMs);
    if (count < 0 && errno != EINTR)
      return make_error(Code::kInternal, "epoll_wait: {}", std::strerror(errno));
    const TimePoint now = Clock::now();
    bool stops = false;
    for (int i = 0; i < count; ++i) {
      const int fd = ready[i].data.fd;
      stops |= fd == stop;
      if (fd == data_->fd())
        data_->receive(now);
      else if (fd == listener_.get())
        accept(now);
      else if (ascents_.contains(fd))
        hear_above(fd, now);
      else
        hear(fd, now);
    }
    if (stops) return true;
    if (now - looked_after_ >= kLookAfterEvery) look_after(now);
    if (longest != Nanos::max() && now - begin >= longest) return false;
  }
}

// --- who comes ---

void SwitchServer::accept(TimePoint now) {
  constexpr int kMost = 64;  // then others get their turn
  for (int accepts = 0; accepts < kMost; ++accepts) {
    if (guests_.size() >= options_.most_connections)
      return let_nobody_in(
          fmt::format("there are {} connections, and no more are allowed", guests_.size()), now);
    auto accepted = accept_on(listener_.get());
    if (!accepted) return let_nobody_in(accepted.error().what, now);
    if (!*accepted) return;
    const int fd = accepted->get();
    if (const Status watched = watch(events_.get(), fd); !watched)
      return let_nobody_in(watched.error().what, now);
    tune_stream(fd);
    Guest& guest = guests_[fd];
    guest.fd = *std::move(accepted);
    guest.came = now;
    if (const auto from = remote_address(fd)) guest.from = *from;
    guest.handshake =
        std::make_unique<Handshake>(HandshakeOptions{.role = HandshakeRole::kResponder,
                                                     .purpose = Purpose::kControl,
                                                     .self = {.token = id_, .group = kSwitchGroup},
                                                     .key = options_.key,
                                                     .peer_name = to_text(guest.from),
                                                     .remedy = kOneKey});
  }
}

/// Until look_after() looks again: who comes meanwhile waits in the listener's queue.
void SwitchServer::let_nobody_in(const std::string& why, TimePoint now) {
  (void)epoll_ctl(events_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr);
  is_full_ = true;
  constexpr Nanos kSayEvery = std::chrono::minutes(1);
  if (full_said_ != TimePoint() && now - full_said_ < kSayEvery) return;
  full_said_ = now;
  say("nobody is let in for now: " + why);
}

void SwitchServer::hear(int fd, TimePoint now) {
  const auto found = guests_.find(fd);
  if (found == guests_.end()) return;
  Guest& guest = found->second;
  if (guest.handshake) {
    const Status moved = advance(fd, *guest.handshake);
    const Handshake::State state = guest.handshake->state();
    if (!moved || state == Handshake::State::kFailed) {
      say(fmt::format("{}: {}", to_text(guest.from),
                      moved ? guest.handshake->error().what : moved.error().what));
      return dismiss(fd);
    }
    if (state != Handshake::State::kDone) return;
    guest.handshake.reset();
  }
  read(fd, guest, now);
}

void SwitchServer::read(int fd, Guest& guest, TimePoint now) {
  std::byte room[kMostControlBytes];
  const ssize_t got = recv(fd, room, sizeof room, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  if (got <= 0) return dismiss(fd);
  if (guest.join) return dismiss(fd);  // nothing more was expected
  guest.received.insert(guest.received.end(), room, room + got);
  const auto message = first_message(guest.received);
  if (!message) return refuse(fd, message.error().what);
  if (!*message) return;
  const auto join = decode_join(**message);
  if (!join) return refuse(fd, join.error().what);
  take_join(fd, guest, *join, now);
}

// --- who goes ---

void SwitchServer::refuse(int fd, const std::string& why) {
  const Blob message = encode(Welcome{.refusal = why}, options_.key);
  (void)::send(fd, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (const auto guest = guests_.find(fd); guest != guests_.end())
    say(fmt::format("{} is refused: {}", to_text(guest->second.from), why));
  dismiss(fd);
}

void SwitchServer::dismiss(int fd) {
  const auto found = guests_.find(fd);
  if (found == guests_.end()) return;
  const Guest guest = std::move(found->second);
  guests_.erase(found);
  if (guest.join) leave(guest, fd);
}

void SwitchServer::look_after(TimePoint now) {
  looked_after_ = now;
  dismiss_slow(now);
  give_up_waiting(now);
  give_up_ascents(now);
  close_idle(now);
  if (is_full_ && watch(events_.get(), listener_.get())) is_full_ = false;
}

/// Who holds the key joins once all of its job have looked their switches up.
void SwitchServer::dismiss_slow(TimePoint now) {
  std::vector<int> slow;
  for (const auto& [fd, guest] : guests_) {
    const Nanos patience = guest.handshake
                               ? kHandshakePatience
                               : std::max<Nanos>(kHandshakePatience, options_.join_patience);
    if (!guest.join && now - guest.came > patience) slow.push_back(fd);
  }
  for (const int fd : slow) {
    say(fmt::format("{} is dismissed: it has been here for long and has joined no session",
                    to_text(guests_.at(fd).from)));
    dismiss(fd);
  }
}

}  // namespace tutti::in_network
