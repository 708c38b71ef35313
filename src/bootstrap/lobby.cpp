#include "src/bootstrap/lobby.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include <sys/epoll.h>

#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/bootstrap/hub.hpp"

namespace tutti {
namespace {
constexpr auto kSweep = std::chrono::milliseconds(500);
constexpr auto kPause = std::chrono::milliseconds(100);
}  // namespace

Result<std::shared_ptr<Lobby>> Lobby::at(Service& service, const SocketAddress& address,
                                         const Limits& limits) {
  const std::string name = "lobby " + to_text(address);
  auto& slot = service.attachment(name);
  if (slot) return std::static_pointer_cast<Lobby>(slot);
  TUTTI_ASSIGN(Fd listener, listen_on(address));
  TUTTI_ASSIGN(const auto bound, local_address(listener.get()));
  auto lobby = std::make_shared<Lobby>(service, name, std::move(listener), bound, limits);
  TUTTI_ASSIGN(lobby->watch_, service.watch(lobby->listener_.get(), EPOLLIN,
                                            [raw = lobby.get()](auto) { raw->accept_some(); }));
  slot = lobby;
  return lobby;
}

Lobby::Lobby(Service& service, std::string name, Fd listener, SocketAddress address, Limits limits)
    : service_(service),
      name_(std::move(name)),
      listener_(std::move(listener)),
      address_(address),
      limits_(limits) {}

Lobby::~Lobby() {
  service_.unwatch(watch_);
  service_.cancel(sweep_);
  service_.cancel(resume_);
  for (const auto& stranger : strangers_) service_.unwatch(stranger.watch);
}

// ---- groups ----

void Lobby::admit(std::uint64_t group, const Key& key) {
  Group& entry = groups_[group];
  entry.key = key;
  ++entry.uses;
}

void Lobby::dismiss(std::uint64_t group) {
  const auto found = groups_.find(group);
  if (found == groups_.end() || --found->second.uses > 0) return;
  groups_.erase(found);
  close_if_empty();
}

void Lobby::post_notice(std::uint64_t group, const FrameBytes& notice) {
  const auto found = groups_.find(group);
  if (found != groups_.end() && !found->second.notice) found->second.notice = notice;
}

// The last owner may be on the stack above, so the end comes after it.
void Lobby::close_if_empty() {
  if (!groups_.empty()) return;
  service_.post([&service = service_, name = name_] {
    auto& slot = service.attachment(name);
    if (slot && std::static_pointer_cast<Lobby>(slot)->groups_.empty()) slot.reset();
  });
}

void Lobby::open_hub(std::uint64_t parent, std::shared_ptr<Hub> hub) {
  const auto found = groups_.find(parent);
  if (found == groups_.end()) return;
  Group& group = found->second;
  const std::uint64_t id = hub->group();
  group.hubs[id] = std::move(hub);
  std::vector<Waiting> ready;
  for (auto at = group.waiting.begin(); at != group.waiting.end();) {
    const bool his = at->second.join && at->second.join->group == id;
    if (his) ready.push_back(std::move(at->second));
    at = his ? group.waiting.erase(at) : std::next(at);
  }
  for (Waiting& waiting : ready) seat(group, std::move(waiting));
}

void Lobby::close_hub(std::uint64_t parent, std::uint64_t group) {
  const auto found = groups_.find(parent);
  if (found != groups_.end()) found->second.hubs.erase(group);
}

void Lobby::abandon_hub(std::uint64_t parent, std::uint64_t group, const Error& why) {
  const auto found = groups_.find(parent);
  if (found == groups_.end()) return;
  const auto hub = found->second.hubs.find(group);
  // One that did form, unnoticed by its own rank, closes when all have left it.
  if (hub == found->second.hubs.end() || hub->second->formed()) return;
  hub->second->give_up(why);
  dismiss(parent);
}

// ---- strangers ----

void Lobby::accept_some() {
  for (int i = 0; i < 64; ++i) {
    auto fd = accept_on(listener_.get());
    if (!fd && !strangers_.empty()) {
      drop_stranger(strangers_.front().id);
      continue;
    }
    if (!fd) {
      log_warn("", "{}; waiting for some to close", fd.error().what);
      return pause_accepting();
    }
    if (!*fd) return;
    welcome_stranger(*std::move(fd));
  }
}

// Without descriptors the listener stays readable: wait, or the thread would spin.
void Lobby::pause_accepting() {
  service_.rewatch(watch_, 0);
  resume_ = service_.at(Clock::now() + kPause, [this] { service_.rewatch(watch_, EPOLLIN); });
}

void Lobby::welcome_stranger(Fd fd) {
  // Half of the descriptors are enough for strangers: the program needs some, too.
  const auto most = std::min<std::uint64_t>(limits_.strangers, raise_fd_limit(0) / 2);
  if (strangers_.size() >= most && !strangers_.empty()) drop_stranger(strangers_.front().id);
  tune_stream(fd.get());
  const std::uint64_t id = next_id_++;
  const auto from = remote_address(fd.get());
  HandshakeOptions options;
  options.role = HandshakeRole::kResponder;
  if (from) options.peer_name = to_text(*from);
  auto watch = service_.watch(fd.get(), EPOLLIN, [this, id](auto) { on_stranger(id); });
  if (!watch) return;
  strangers_.push_back({id, std::move(fd), std::make_unique<Handshake>(std::move(options)), *watch,
                        Clock::now() + limits_.patience, from ? *from : SocketAddress{}});
  stranger_by_id_[id] = std::prev(strangers_.end());
  schedule_sweep();
}

void Lobby::on_stranger(std::uint64_t id) {
  const auto found = stranger_by_id_.find(id);
  if (found == stranger_by_id_.end()) return;
  Stranger& stranger = *found->second;
  const bool goes_on = converse(stranger);
  if (stranger.handshake->state() == Handshake::State::kDone) return promote(id);
  if (goes_on) return;
  const std::string why = stranger.handshake->state() == Handshake::State::kFailed
                              ? stranger.handshake->error().what
                              : to_text(stranger.from) + " hung up during the handshake";
  log_info(Subsystem::kBootstrap, "", "refused a connection: {}", why);
  drop_stranger(id);
}

bool Lobby::converse(Stranger& stranger) {
  Handshake& handshake = *stranger.handshake;
  while (handshake.state() == Handshake::State::kMore) {
    std::array<std::byte, 64> buffer;
    const std::size_t want = std::min(handshake.wanted(), buffer.size());
    const ssize_t n = ::recv(stranger.fd.get(), buffer.data(), want, MSG_DONTWAIT);
    if (n == 0) return false;
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    handshake.feed(std::span(buffer).first(static_cast<std::size_t>(n)));
    if (handshake.state() == Handshake::State::kNeedsKey) {
      const std::uint64_t group = handshake.claimed().group;
      if (const auto found = groups_.find(group); found != groups_.end()) {
        handshake.choose(found->second.key, {service_.token(), kNoRank, group});
      } else {
        handshake.refuse(make_error(Code::kPeerFailed, "{} asks for group {:016x}, not one of here",
                                    to_text(stranger.from), group));
      }
    }
    // At most 160 bytes in all: they fit a fresh socket's buffer, or the peer is no peer.
    while (!handshake.output().empty()) {
      const auto out = handshake.output();
      const ssize_t sent =
          ::send(stranger.fd.get(), out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent <= 0) return false;
      handshake.sent(static_cast<std::size_t>(sent));
    }
  }
  return handshake.state() == Handshake::State::kDone;
}

void Lobby::drop_stranger(std::uint64_t id) {
  const auto found = stranger_by_id_.find(id);
  if (found == stranger_by_id_.end()) return;
  service_.unwatch(found->second->watch);
  strangers_.erase(found->second);
  stranger_by_id_.erase(found);
}

// ---- members ----

void Lobby::promote(std::uint64_t id) {
  Stranger stranger = std::move(*stranger_by_id_.at(id));
  service_.unwatch(stranger.watch);
  strangers_.erase(stranger_by_id_.at(id));
  stranger_by_id_.erase(id);

  const Identity identity = stranger.handshake->peer();
  const auto found = groups_.find(identity.group);
  if (found == groups_.end() || found->second.waiting.size() >= limits_.waiting) return;
  const std::uint64_t group = identity.group;
  auto channel = Channel::open(
      service_, std::move(stranger.fd), kMaxBlobBytes,
      {.on_frame = [this, group, id](const Frame& frame) { on_first_frame(group, id, frame); },
       .on_end =
           [this, group, id](const Error&) {
             if (const auto at = groups_.find(group); at != groups_.end()) {
               at->second.waiting.erase(id);
             }
           }});
  if (!channel) return;
  // Until it hears something, the member cannot know that it was not dropped as a stranger.
  (*channel)->send(FrameType::kHeartbeat);
  found->second.waiting.emplace(
      id, Waiting{*std::move(channel), identity, std::nullopt, Clock::now() + limits_.patience});
  schedule_sweep();
}

void Lobby::on_first_frame(std::uint64_t group_id, std::uint64_t id, const Frame& frame) {
  if (frame.type == FrameType::kHeartbeat) return;
  const auto group = groups_.find(group_id);
  if (group == groups_.end()) return;
  const auto found = group->second.waiting.find(id);
  if (found == group->second.waiting.end()) return;
  if (frame.type == FrameType::kWho && found->second.join) {
    return tell_who_waits(group->second, found->second);
  }
  if (frame.type == FrameType::kPulse && !found->second.join) {
    static const FrameBytes& kAllIsWell = *new FrameBytes(encode_frame(FrameType::kPulse, 0));
    const FrameBytes& notice = group->second.notice;
    return found->second.channel->send(notice ? notice : kAllIsWell);
  }
  const auto join = frame.type == FrameType::kJoin ? decode_join(frame.body) : std::nullopt;
  if (!join || found->second.join) {  // nobody who holds the key says this
    group->second.waiting.erase(found);
    return;
  }
  found->second.join = join;
  if (!group->second.hubs.contains(join->group)) return;
  Waiting waiting = std::move(found->second);
  group->second.waiting.erase(found);
  seat(group->second, std::move(waiting));
}

void Lobby::tell_who_waits(const Group& group, const Waiting& asker) {
  const JoinBody& join = *asker.join;
  if (join.size < 1 || join.size > kMaxGroupSize) return;
  Blob came(static_cast<std::size_t>(join.size), std::byte{0});
  for (const auto& [id, waiting] : group.waiting) {
    if (!waiting.join || waiting.join->group != join.group) continue;
    const auto rank = static_cast<std::size_t>(waiting.join->rank);
    if (rank < came.size()) came[rank] = std::byte{1};
  }
  asker.channel->send(FrameType::kCame, 0, came);
}

void Lobby::seat(Group& group, Waiting waiting) {
  const auto hub = group.hubs.at(waiting.join->group);  // by value: it may close itself
  hub->adopt(std::move(waiting.channel), waiting.identity, *waiting.join);
}

// ---- patience ----

void Lobby::schedule_sweep() {
  if (sweep_ != 0) return;
  sweep_ = service_.at(Clock::now() + kSweep, [this] {
    sweep_ = 0;
    sweep();
  });
}

void Lobby::sweep() {
  const TimePoint now = Clock::now();
  while (!strangers_.empty() && strangers_.front().deadline <= now) {
    log_info(Subsystem::kBootstrap, "", "refused a connection: {} did not finish the handshake",
             to_text(strangers_.front().from));
    drop_stranger(strangers_.front().id);
  }
  bool more = !strangers_.empty();
  for (auto& [id, group] : groups_) {
    std::erase_if(group.waiting,
                  [&](auto& entry) { return !entry.second.join && entry.second.deadline <= now; });
    more = more || !group.waiting.empty();
  }
  if (more) schedule_sweep();
}

}  // namespace tutti
