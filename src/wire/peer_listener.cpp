#include "src/wire/peer_listener.hpp"

#include <algorithm>
#include <utility>

#include <poll.h>

#include "src/base/result.hpp"
#include "src/wire/net.hpp"

namespace tutti {
namespace {

constexpr std::size_t kMaxVisitors = 128;
constexpr auto kVisit = std::chrono::seconds(30);
constexpr auto kOneDial = std::chrono::seconds(5);

std::uint64_t group_of(const Key& key) { return derive_id(key, "tutti data group"); }

bool is_here(const PeerSocket& socket) { return static_cast<bool>(socket.fd); }

bool has_ended(const PeerSocket& socket) {
  if (!socket.fd) return false;
  pollfd end{socket.fd.get(), POLLRDHUP, 0};
  return ::poll(&end, 1, 0) > 0 && (end.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

bool done(const Handshake& handshake) {
  return handshake.state() == Handshake::State::kDone && handshake.output().empty();
}

}  // namespace

/// Lets members of a group in, also while its own call waits for another one's: two groups may meet
/// the same peer in opposite order.
class PeerListener::Admission {
 public:
  Admission(PeerListener& listener, std::span<const std::byte> key) : listener_(listener) {
    std::ranges::copy(key, key_.begin());
    std::scoped_lock lock(listener_.mutex_);
    const auto known = membership();
    if (known == listener_.memberships_.end())
      listener_.memberships_.push_back({key_, group_of(key_), 1});
    else
      ++known->uses;
  }
  ~Admission() {
    std::scoped_lock lock(listener_.mutex_);
    if (const auto known = membership(); --known->uses == 0) {
      wipe(known->key);
      listener_.memberships_.erase(known);
    }
    wipe(key_);
  }
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  [[nodiscard]] const Key& key() const { return key_; }

 private:
  std::vector<Membership>::iterator membership() {
    return std::ranges::find(listener_.memberships_, group_of(key_), &Membership::group);
  }

  PeerListener& listener_;
  Key key_{};
};

namespace {

std::vector<Fd> one(Fd listener) {
  std::vector<Fd> listeners;
  listeners.push_back(std::move(listener));
  return listeners;
}

}  // namespace

PeerListener::PeerListener(Fd listener, std::uint64_t self, std::string what, Hooks hooks,
                           std::size_t sockets)
    : PeerListener(one(std::move(listener)), self, std::move(what), std::move(hooks), sockets) {}

PeerListener::PeerListener(std::vector<Fd> listeners, std::uint64_t self, std::string what,
                           Hooks hooks, std::size_t sockets)
    : listeners_(std::move(listeners)),
      self_(self),
      what_(std::move(what)),
      hooks_(std::move(hooks)),
      sockets_(std::clamp<std::size_t>(sockets, 1, kMaxSockets)) {}

PeerListener::~PeerListener() {
  for (Membership& membership : memberships_) wipe(membership.key);
}

Result<std::shared_ptr<Connection>> PeerListener::connect(const PeerProcess& peer,
                                                          std::span<const std::byte> key,
                                                          Deadline deadline) {
  if (key.size() != sizeof(Key) || peer.token == self_)
    return make_error(
        Code::kInvalidArgument,
        "connecting to rank {} needs a key of {} bytes (got {}) and a peer other than "
        "this process",
        peer.rank, sizeof(Key), key.size());
  const Admission admission(*this, key);
  std::unique_lock lock(mutex_);
  while (connecting_.contains(peer.token)) {  // by another thread, whose deadline may be later
    if (deadline.passed()) return late(peer);
    connected_.wait_for(lock, deadline.nap(std::chrono::milliseconds(100)));
  }
  if (auto existing = connections_[peer.token].lock(); existing && existing->health())
    return existing;
  tidy();  // what the peer left behind in an attempt that failed
  connecting_.insert(peer.token);
  lock.unlock();
  const auto make = [&]() -> Result<std::shared_ptr<Connection>> {
    TUTTI_ASSIGN(PeerSockets sockets, meet(peer, admission.key(), deadline));
    return hooks_.make(peer, std::move(sockets), deadline);
  };
  auto made = make();
  lock.lock();
  if (made) connections_[peer.token] = *made;
  connecting_.erase(peer.token);
  tidy();
  connected_.notify_all();
  return made;
}

Result<PeerSockets> PeerListener::meet(const PeerProcess& peer, const Key& key, Deadline deadline) {
  return self_ < peer.token ? dial(peer, key, deadline) : await(peer, deadline);
}

// Under the lock: drops connections that are gone, and peers that came and went unawaited.
void PeerListener::tidy() {
  std::erase_if(connections_, [](const auto& entry) { return entry.second.expired(); });
  std::erase_if(met_, [this](const auto& entry) {
    if (connecting_.contains(entry.first)) return false;
    return std::ranges::any_of(entry.second.sockets, has_ended);
  });
}

Error PeerListener::late(const PeerProcess& peer) const {
  return peer_error(Code::kTimeout, peer.rank,
                    "rank {} did not connect over {} before the deadline: see whether it still "
                    "runs, and what its log says",
                    peer.rank, what_);
}

// --- dialling ---

Result<PeerSockets> PeerListener::dial(const PeerProcess& peer, const Key& key, Deadline deadline) {
  PeerSockets sockets;
  Part next{.attempt = random_u64(), .index = 0};
  for (; sockets.size() < sockets_; ++next.index) {
    TUTTI_ASSIGN(PeerSocket socket, dial_part(next, peer, key, deadline));
    sockets.push_back(std::move(socket));
  }
  return sockets;
}

Result<PeerSocket> PeerListener::dial_part(const Part& part, const PeerProcess& peer,
                                           const Key& key, Deadline deadline) {
  for (int attempt = 0;; ++attempt) {
    auto fd = hooks_.dial(peer.address, part.index, deadline.within(kOneDial));
    auto met = fd ? introduce(std::move(*fd), part, peer, key, deadline) : std::move(fd).error();
    if (met) return met;
    // A broken socket may be a peer that is busy; a refusal that came in words is final.
    const Error& error = met.error();
    if (error.os_errno == 0 && error.code != Code::kTimeout) return met;
    if (deadline.passed()) return error.code == Code::kTimeout ? late(peer) : error;
    back_off(attempt, deadline);
  }
}

Result<PeerSocket> PeerListener::introduce(Fd fd, const Part& part, const PeerProcess& peer,
                                           const Key& key, Deadline deadline) {
  Handshake handshake({.role = HandshakeRole::kInitiator,
                       .purpose = Purpose::kData,
                       .self = {.token = self_,
                                .rank = kNoRank,
                                .group = group_of(key),
                                .part = part.index,
                                .parts = static_cast<std::uint8_t>(sockets_),
                                .attempt = part.attempt},
                       .key = key,
                       .peer_name = fmt::format("rank {}", peer.rank),
                       .expected_token = peer.token});
  for (;;) {
    TUTTI_TRY(advance(fd.get(), handshake));
    if (done(handshake)) break;
    if (deadline.passed()) return late(peer);
    serve();
    wait_for_news(fd.get(), handshake.output().empty() ? POLLIN : POLLOUT, deadline);
  }
  TUTTI_ASSIGN(auto greeting, hooks_.greet(fd.get()));
  return PeerSocket{std::move(fd), std::move(greeting)};
}

// --- accepting ---

Result<PeerSockets> PeerListener::await(const PeerProcess& peer, Deadline deadline) {
  for (;;) {
    serve();
    {
      std::scoped_lock lock(mutex_);
      const auto found = met_.find(peer.token);
      if (found != met_.end() && std::ranges::all_of(found->second.sockets, is_here))
        return std::move(met_.extract(found).mapped().sockets);
      if (deadline.passed() && cannot_accept_) return *cannot_accept_;
    }
    if (deadline.passed()) return late(peer);
    wait_for_news(-1, 0, deadline);
  }
}

void PeerListener::serve() {
  std::scoped_lock lock(mutex_);
  let_in();
  const TimePoint now = Clock::now();
  std::erase_if(visitors_,
                [&](Visitor& visitor) { return !attend(visitor) || visitor.until < now; });
}

void PeerListener::let_in() {
  for (const Fd& listener : listeners_) let_in(listener.get());
}

void PeerListener::let_in(int listener) {
  for (std::size_t i = 0; i < kMaxVisitors; ++i) {
    auto fd = hooks_.accept(listener);
    if (!fd) {
      cannot_accept_ = std::move(fd).error();
      return;
    }
    cannot_accept_.reset();
    if (!*fd) return;
    if (visitors_.size() >= kMaxVisitors) visitors_.pop_front();
    auto handshake = std::make_unique<Handshake>(
        HandshakeOptions{.role = HandshakeRole::kResponder,
                         .purpose = Purpose::kData,
                         .self = {.token = self_, .rank = kNoRank, .group = 0},
                         .key = std::nullopt,
                         .peer_name = "a visitor"});
    visitors_.push_back({std::move(*fd), std::move(handshake), Clock::now() + kVisit});
  }
}

// False when the visitor is to be dropped from the list: it failed, or it is one of us now.
bool PeerListener::attend(Visitor& visitor) {
  Handshake& handshake = *visitor.handshake;
  if (!advance(visitor.fd.get(), handshake)) return false;
  if (handshake.state() == Handshake::State::kNeedsKey) {
    choose_key(handshake);
    if (!advance(visitor.fd.get(), handshake)) return false;
  }
  if (!done(handshake)) return true;
  if (auto greeting = hooks_.greet(visitor.fd.get()))
    admit(handshake.peer(), {std::move(visitor.fd), *std::move(greeting)});
  return false;
}

// A part that comes again takes the place of the one that the peer gave up, and another attempt
// that of all parts: the peer has no connection in which both are.
void PeerListener::admit(const Identity& peer, PeerSocket socket) {
  if (peer.parts > kMaxSockets) return;
  Arrival& arrival = met_[peer.token];
  if (arrival.attempt != peer.attempt || arrival.sockets.size() != peer.parts)
    arrival = {peer.attempt, PeerSockets(peer.parts)};
  arrival.sockets[peer.part] = std::move(socket);
}

// A visitor whose group is not known yet waits: our own call may come any moment.
void PeerListener::choose_key(Handshake& handshake) {
  const auto membership =
      std::ranges::find(memberships_, handshake.claimed().group, &Membership::group);
  if (membership == memberships_.end()) return;
  handshake.choose(membership->key, {.token = self_, .rank = kNoRank, .group = membership->group});
}

void PeerListener::wait_for_news(int fd, short events, Deadline deadline) {
  std::vector<pollfd> watched{{fd, events, 0}};
  for (const Fd& listener : listeners_) watched.push_back({listener.get(), POLLIN, 0});
  {
    std::scoped_lock lock(mutex_);
    for (const Visitor& visitor : visitors_)
      if (visitor.handshake->state() == Handshake::State::kMore)
        watched.push_back({visitor.fd.get(), POLLIN, 0});
  }
  // Another thread may serve the visitor that this one waits for: look again soon.
  ::poll(watched.data(), watched.size(), deadline.poll_ms(10));
}

}  // namespace tutti
