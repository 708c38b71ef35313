// Sessions: who joins, who leaves, and a leaf's ways to the switch above.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "src/base/result.hpp"
#include "transports/switch/server.hpp"

namespace tutti::in_network {
namespace {

/// The switch above waits for the other leaves as long as this one has for its workers. It gives up
/// first, and says for whom it has waited.
constexpr Nanos kMorePatience = std::chrono::seconds(2);

/// The job's name at the switch above, which may be this one.
JobToken name_above(const JobToken& job) { return derive_key(job, "tutti switch leaf", {}); }

Status watch_ascent(int events, int operation, const WayUp& way) {
  epoll_event event{.events = way.wants_write() ? EPOLLIN | EPOLLOUT : EPOLLIN,
                    .data = {.fd = way.fd()}};
  if (epoll_ctl(events, operation, way.fd(), &event) == 0) return ok_status();
  return make_error(Code::kUnavailable, "epoll: {}", std::strerror(errno));
}

std::string text_of(const Join& join) {
  std::string text = fmt::format("{} workers", join.workers);
  if (join.leaves > 1) text += fmt::format(" at leaf {} of {}", join.leaf, join.leaves);
  return text;
}

}  // namespace

// --- who comes ---

void SwitchServer::take_join(int fd, Guest& guest, const Join& join, TimePoint now) {
  if (const std::string why = objection(join); !why.empty()) return refuse(fd, why);
  Waiting& waiting = waiting_[join.job];
  if (waiting.guests.empty()) {
    waiting.first = join;
    waiting.guests.assign(join.workers, kNobody);
    waiting.since = now;
  }
  guest.join = join;
  waiting.guests[join.worker] = fd;
  if (++waiting.here != join.workers) return;
  if (join.leaves > 1) return go_up(JobToken(join.job), now);
  open_session(JobToken(join.job), request_for(waiting), now);
}

/// Why this worker may not join; "": it may.
std::string SwitchServer::objection(const Join& join) const {
  if (join.workers > kMostWorkers)
    return fmt::format("a session of {} workers; this switch adds for at most {}", join.workers,
                       kMostWorkers);
  if (join.leaves > kMostWorkers)
    return fmt::format("a session of {} leaves; the switch above them adds for at most {}",
                       join.leaves, kMostWorkers);
  if (join.leaves > 1 && !options_.above)
    return fmt::format(
        "the job has hosts at {} switches, and there is none above this one: start each of them "
        "with --above HOST:PORT of one more switch",
        join.leaves);
  const auto found = waiting_.find(join.job);
  if (found == waiting_.end()) return {};
  const Join& first = found->second.first;
  if (join.workers != first.workers || join.leaves != first.leaves || join.leaf != first.leaf)
    return fmt::format("{}, where others of the job have said {}", text_of(join), text_of(first));
  if (found->second.guests[join.worker] != kNobody)
    return fmt::format("worker {} has joined before", join.worker);
  return {};
}

SessionRequest SwitchServer::request_for(const Waiting& waiting) const {
  SessionRequest request{.id = random_u64() | 1, .workers = waiting.first.workers};
  random_bytes(request.key);
  request.slots = ~std::uint32_t{0};
  for (const int fd : waiting.guests)
    request.slots = std::min(request.slots, guests_.at(fd).join->slots);
  return request;
}

void SwitchServer::open_session(const JobToken& job, const SessionRequest& request, TimePoint now) {
  const auto session = sessions_->open(request, now);
  if (!session) return refuse_all(job, session.error().what);
  const auto waiting = waiting_.extract(job);
  ++opened_;
  OpenSession& opened = open_[request.id];
  opened.guests = waiting.mapped().guests;
  opened.way_up = waiting.mapped().way_up;
  SocketAddress above;
  if (opened.way_up != kNobody) {
    Ascent& ascent = ascents_.at(opened.way_up);
    ascent.session = request.id;
    above = options_.above.with_port(ascent.way.welcome()->port);
  }
  data_->add(request.id, request.workers, above);
  for (const int fd : opened.guests) guests_.at(fd).session = request.id;
  const std::uint32_t slots = (*session)->pool().slots();
  welcome(opened,
          {.session = request.id, .key = request.key, .slots = slots, .port = address_.port});
  say(fmt::format("session {:x}: {}, {} slots; {} slots are left", request.id,
                  text_of(waiting.mapped().first), slots, sessions_->free_slots()));
}

void SwitchServer::welcome(const OpenSession& session, const Welcome& welcome) {
  const Blob message = encode(welcome, options_.key);
  // A new stream has room for it. If it has none, the worker's deadline ends the session.
  for (const int fd : session.guests)
    (void)::send(fd, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

// --- who goes ---

/// Ends its session, or its job's wait for one.
void SwitchServer::leave(const Guest& guest, int fd) {
  if (guest.session != 0)
    return close_session(guest.session, fmt::format("worker {} has left", guest.join->worker));
  const auto waiting = waiting_.find(guest.join->job);
  if (waiting == waiting_.end() || waiting->second.guests[guest.join->worker] != fd) return;
  waiting->second.guests[guest.join->worker] = kNobody;
  refuse_all(guest.join->job,
             fmt::format("worker {} left before the session began", guest.join->worker));
}

void SwitchServer::refuse_all(const JobToken& job, const std::string& why) {
  const auto found = waiting_.find(job);
  if (found == waiting_.end()) return;
  const Waiting waiting = std::move(found->second);
  waiting_.erase(found);
  ascents_.erase(waiting.way_up);
  for (const int fd : waiting.guests)
    if (fd != kNobody) refuse(fd, why);
}

void SwitchServer::close_session(std::uint64_t id, const std::string& why) {
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  const OpenSession session = std::move(found->second);
  open_.erase(found);
  data_->remove(id);
  sessions_->close(id);
  ascents_.erase(session.way_up);                         // closes: the other leaves learn of it
  for (const int fd : session.guests) guests_.erase(fd);  // and each worker
  say(fmt::format("session {:x} is over: {}", id, why));
}

void SwitchServer::give_up_waiting(TimePoint now) {
  std::vector<std::pair<JobToken, std::string>> given_up;
  for (const auto& [job, waiting] : waiting_) {
    if (waiting.way_up != kNobody || now - waiting.since <= options_.join_patience) continue;
    std::string missing;
    for (std::size_t worker = 0; worker < waiting.guests.size(); ++worker)
      if (waiting.guests[worker] == kNobody) missing += fmt::format(" {}", worker);
    given_up.emplace_back(job, "these workers did not come:" + missing);
  }
  for (const auto& [job, why] : given_up) refuse_all(job, why);
}

void SwitchServer::close_idle(TimePoint now) {
  std::vector<std::uint64_t> idle;
  for (const auto& [id, session] : open_)
    if (const Session* each = sessions_->find(id);
        each == nullptr || now - each->heard_at() > options_.idle_limit)
      idle.push_back(id);
  for (const std::uint64_t id : idle) close_session(id, "no packet for long");
}

// --- above ---

/// All workers of a leaf's session are here.
void SwitchServer::go_up(const JobToken& job, TimePoint now) {
  Waiting& waiting = waiting_.at(job);
  const auto slots = sessions_->would_grant(request_for(waiting));
  if (!slots) return refuse_all(job, slots.error().what);
  auto way = WayUp::begin({.above = options_.above,
                           .key = options_.key,
                           .self = id_,
                           .join = {.job = name_above(job),
                                    .workers = waiting.first.leaves,
                                    .worker = waiting.first.leaf,
                                    .slots = *slots},
                           .shake_patience = options_.above_patience,
                           .welcome_patience = options_.join_patience + kMorePatience},
                          now);
  if (!way) return refuse_all(job, way.error().what);
  if (const Status watched = watch_ascent(events_.get(), EPOLL_CTL_ADD, *way); !watched)
    return refuse_all(job, watched.error().what);
  waiting.way_up = way->fd();
  ascents_.emplace(waiting.way_up, Ascent{.way = *std::move(way), .job = job});
}

void SwitchServer::hear_above(int fd, TimePoint now) {
  Ascent& ascent = ascents_.at(fd);
  const bool wanted_write = ascent.way.wants_write();
  if (const Status moved = ascent.way.advance(now); !moved)
    return lose_above(fd, moved.error().what);
  if (wanted_write != ascent.way.wants_write())
    if (const Status watched = watch_ascent(events_.get(), EPOLL_CTL_MOD, ascent.way); !watched)
      return lose_above(fd, watched.error().what);
  if (ascent.session == 0 && ascent.way.welcome()) open_below(fd, ascent, now);
}

/// The leaf is welcome above: so are its workers here.
void SwitchServer::open_below(int fd, Ascent& ascent, TimePoint now) {
  const Waiting& waiting = waiting_.at(ascent.job);
  const Welcome& welcome = *ascent.way.welcome();
  SessionRequest request = request_for(waiting);
  request.slots = welcome.slots;
  request.above = Above{.session = welcome.session,
                        .key = welcome.key,
                        .worker = static_cast<std::uint8_t>(waiting.first.leaf)};
  const auto slots = sessions_->would_grant(request);
  if (slots && *slots < welcome.slots)
    return lose_above(fd, fmt::format("it gives the session {} slots, and this leaf has {} left: "
                                      "start it with more --slots, or end a job",
                                      welcome.slots, *slots));
  open_session(JobToken(ascent.job), request, now);
}

void SwitchServer::lose_above(int fd, const std::string& why) {
  const Ascent& ascent = ascents_.at(fd);
  const std::string what = fmt::format("the switch above, {}: {}", to_text(options_.above), why);
  if (ascent.session != 0) return close_session(ascent.session, what);
  refuse_all(JobToken(ascent.job), what);
}

void SwitchServer::give_up_ascents(TimePoint now) {
  std::vector<std::pair<int, std::string>> late;
  for (const auto& [fd, ascent] : ascents_)
    if (const Status patience = ascent.way.check_patience(now); !patience)
      late.emplace_back(fd, patience.error().what);
  for (const auto& [fd, why] : late) lose_above(fd, why);
}

}  // namespace tutti::in_network
