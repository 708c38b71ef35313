// Sessions: who joins, who leaves. server_data.cpp has the packets.
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
  sessions_ = std::make_unique<Sessions>(options_.limits);
  plane_ = std::make_unique<DataPlane>(*sessions_);
  events_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  if (!events_) return make_error(Code::kUnavailable, "epoll: {}", std::strerror(errno));
  // A port that is free for TCP may be taken for UDP.
  constexpr int kTries = 16;
  for (int tried = 0; !data_; ++tried) {
    TUTTI_ASSIGN(listener_, listen_on(options_.listen));
    TUTTI_ASSIGN(address_, local_address(listener_.get()));
    auto data = open_datagrams(address_);
    if (data)
      data_ = *std::move(data);
    else if (options_.listen.port != 0 || tried == kTries)
      return std::move(data).error();
  }
  writer_ = std::make_unique<DatagramWriter>(can_segment(data_.get()));
  TUTTI_TRY(watch(events_.get(), listener_.get()));
  return watch(events_.get(), data_.get());
}

void SwitchServer::say(const std::string& line) const {
  if (options_.say) options_.say(line);
}

ServerCounts SwitchServer::counts() const {
  ServerCounts counts = counts_;
  counts.packets = plane_->counts();
  counts.open_sessions = open_.size();
  counts.free_slots = sessions_->free_slots();
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
      if (fd == data_.get())
        receive(now);
      else if (fd == listener_.get())
        accept(now);
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
  for (;;) {
    auto accepted = accept_on(listener_.get());
    if (!accepted || !*accepted) return;
    const int fd = accepted->get();
    if (guests_.size() >= options_.most_connections || !watch(events_.get(), fd)) continue;
    tune_stream(fd);
    Guest& guest = guests_[fd];
    guest.fd = *std::move(accepted);
    guest.came = now;
    if (const auto from = remote_address(fd)) guest.from = *from;
    guest.handshake = std::make_unique<Handshake>(
        HandshakeOptions{.role = HandshakeRole::kResponder,
                         .purpose = Purpose::kControl,
                         .self = {.token = kSwitchGroup, .group = kSwitchGroup},
                         .key = options_.key,
                         .peer_name = to_text(guest.from)});
  }
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

void SwitchServer::take_join(int fd, Guest& guest, const Join& join, TimePoint now) {
  if (join.workers > kMostWorkers)
    return refuse(fd, fmt::format("a session of {} workers; this switch adds for at most {}",
                                  join.workers, kMostWorkers));
  Waiting& waiting = waiting_[join.job];
  if (waiting.guests.empty()) {
    waiting.guests.assign(join.workers, -1);
    waiting.since = now;
  }
  if (waiting.guests.size() != join.workers)
    return refuse(fd, fmt::format("{} workers, where others of the job have said {}", join.workers,
                                  waiting.guests.size()));
  if (waiting.guests[join.worker] != -1)
    return refuse(fd, fmt::format("worker {} has joined before", join.worker));
  guest.join = join;
  waiting.guests[join.worker] = fd;
  if (++waiting.here == join.workers) open_session(JobToken(join.job), now);
}

void SwitchServer::open_session(const JobToken& job, TimePoint now) {
  const std::vector<int> guests = waiting_.at(job).guests;
  SessionRequest request{.id = random_u64() | 1, .workers = static_cast<unsigned>(guests.size())};
  random_bytes(request.key);
  request.slots = ~std::uint32_t{0};
  for (const int fd : guests) request.slots = std::min(request.slots, guests_.at(fd).join->slots);
  const auto session = sessions_->open(request, now);
  if (!session) return refuse_all(job, session.error().what);
  waiting_.erase(job);
  ++counts_.sessions;
  OpenSession& opened = open_[request.id];
  opened.guests = guests;
  opened.workers.resize(guests.size());
  const Welcome welcome{.session = request.id,
                        .key = request.key,
                        .slots = (*session)->pool().slots(),
                        .port = address_.port};
  const Blob message = encode(welcome, options_.key);
  for (const int fd : guests) {
    guests_.at(fd).session = request.id;
    // A new stream has room for it. If it has none, the worker's deadline ends the session.
    (void)::send(fd, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  say(fmt::format("session {:x}: {} workers, {} slots; {} slots are left", request.id,
                  guests.size(), welcome.slots, sessions_->free_slots()));
}

// --- who goes ---

void SwitchServer::refuse(int fd, const std::string& why) {
  const Blob message = encode(Welcome{.refusal = why}, options_.key);
  (void)::send(fd, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (const auto guest = guests_.find(fd); guest != guests_.end())
    say(fmt::format("{} is refused: {}", to_text(guest->second.from), why));
  dismiss(fd);
}

void SwitchServer::refuse_all(const JobToken& job, const std::string& why) {
  const auto found = waiting_.find(job);
  if (found == waiting_.end()) return;
  const std::vector<int> guests = found->second.guests;
  waiting_.erase(found);
  for (const int fd : guests)
    if (fd != -1) refuse(fd, why);
}

/// Ends its session, or its job's wait for one.
void SwitchServer::dismiss(int fd) {
  const auto found = guests_.find(fd);
  if (found == guests_.end()) return;
  Guest guest = std::move(found->second);
  guests_.erase(found);
  if (guest.session != 0)
    return close_session(guest.session, fmt::format("worker {} has left", guest.join->worker));
  if (!guest.join) return;
  const auto waiting = waiting_.find(guest.join->job);
  if (waiting == waiting_.end() || waiting->second.guests[guest.join->worker] != fd) return;
  waiting->second.guests[guest.join->worker] = -1;
  refuse_all(guest.join->job,
             fmt::format("worker {} left before the session began", guest.join->worker));
}

void SwitchServer::close_session(std::uint64_t id, const std::string& why) {
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  const std::vector<int> guests = found->second.guests;
  open_.erase(found);
  sessions_->close(id);
  for (const int fd : guests) guests_.erase(fd);  // closes: each worker learns of it
  say(fmt::format("session {:x} is over: {}", id, why));
}

void SwitchServer::look_after(TimePoint now) {
  looked_after_ = now;
  std::vector<int> slow;
  for (const auto& [fd, guest] : guests_)
    if (!guest.join && now - guest.came > kHandshakePatience) slow.push_back(fd);
  for (const int fd : slow) dismiss(fd);

  std::vector<std::pair<JobToken, std::string>> given_up;
  for (const auto& [job, waiting] : waiting_) {
    if (now - waiting.since <= options_.join_patience) continue;
    std::string missing;
    for (std::size_t worker = 0; worker < waiting.guests.size(); ++worker)
      if (waiting.guests[worker] == -1) missing += fmt::format(" {}", worker);
    given_up.emplace_back(job, "these workers did not come:" + missing);
  }
  for (const auto& [job, why] : given_up) refuse_all(job, why);

  std::vector<std::uint64_t> idle;
  for (const auto& [id, session] : open_)
    if (const Session* each = sessions_->find(id);
        each == nullptr || now - each->heard_at() > options_.idle_limit)
      idle.push_back(id);
  for (const std::uint64_t id : idle) close_session(id, "no packet for long");
}

}  // namespace tutti::in_network
