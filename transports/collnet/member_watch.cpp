#include "transports/collnet/member_watch.hpp"

#include <algorithm>
#include <cerrno>
#include <list>
#include <memory>
#include <utility>

#include <poll.h>
#include <sys/socket.h>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"
#include "src/wire/handshake.hpp"

namespace tutti::collnet {
namespace {

constexpr const char* kLabel = "tutti collnet watch";
/// Longest time of a handshake.
constexpr Nanos kVisit = std::chrono::seconds(5);
/// Beside members. A stranger more costs the oldest visitor its place.
constexpr std::size_t kMostStrangers = 256;

/// Who connects to the first member, and has not shown yet that it is a member.
struct Visitor {
  Fd fd;
  std::unique_ptr<Handshake> handshake;
  TimePoint until;
};

/// The first member's, while it meets the others.
class Reception {
 public:
  Reception(int listener, const WatchSecret& secret, std::size_t members)
      : listener_(listener), secret_(secret), met_(members - 1) {}

  [[nodiscard]] bool is_complete() const {
    return std::ranges::all_of(met_, [](const Fd& fd) { return static_cast<bool>(fd); });
  }
  [[nodiscard]] std::vector<Fd> take() { return std::move(met_); }
  [[nodiscard]] std::size_t missing() const {
    return static_cast<std::size_t>(std::ranges::count_if(met_, [](const Fd& fd) { return !fd; }));
  }

  Status serve() {
    TUTTI_TRY(let_in());
    const TimePoint now = Clock::now();
    std::erase_if(visitors_,
                  [&](Visitor& visitor) { return !attend(visitor) || visitor.until < now; });
    return ok_status();
  }
  void wait(Deadline deadline) const {
    std::vector<pollfd> waits{{listener_, POLLIN, 0}};
    for (const Visitor& visitor : visitors_) waits.push_back({visitor.fd.get(), POLLIN, 0});
    constexpr int kLookAgainMs = 20;
    (void)::poll(waits.data(), waits.size(), deadline.poll_ms(kLookAgainMs));
  }

 private:
  Status let_in() {
    for (;;) {
      TUTTI_ASSIGN(Fd fd, accept_on(listener_));
      if (!fd) return ok_status();
      if (visitors_.size() >= met_.size() + kMostStrangers) visitors_.pop_front();
      auto handshake = std::make_unique<Handshake>(
          HandshakeOptions{.role = HandshakeRole::kResponder,
                           .purpose = Purpose::kControl,
                           .self = {.token = random_u64(), .rank = 0, .group = secret_.id},
                           .key = secret_.key,
                           .peer_name = "a visitor"});
      visitors_.push_back({std::move(fd), std::move(handshake), Clock::now() + kVisit});
    }
  }
  /// Whether it stays.
  bool attend(Visitor& visitor) {
    if (!advance(visitor.fd.get(), *visitor.handshake)) return false;
    if (visitor.handshake->state() != Handshake::State::kDone) return true;
    const auto place = static_cast<std::size_t>(visitor.handshake->peer().rank);
    if (place == 0 || place > met_.size()) return false;
    tune_stream(visitor.fd.get());
    met_[place - 1] = std::move(visitor.fd);
    return false;
  }

  const int listener_;
  const WatchSecret& secret_;
  std::vector<Fd> met_;  // by place, without the first
  std::list<Visitor> visitors_;
};

}  // namespace

bool MemberWatch::is_broken() const {
  return std::ranges::any_of(connections_, [](const Fd& fd) {
    std::byte byte{};
    const ssize_t got = ::recv(fd.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    return got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  });
}

WatchSecret watch_secret(std::span<const std::byte> key, std::uint64_t communicator,
                         std::uint64_t group) {
  Blob context;
  ByteWriter(context).put(communicator).put(group);
  Key whole{};
  std::copy_n(key.begin(), std::min(key.size(), whole.size()), whole.begin());
  return {derive_key(whole, kLabel, context), derive_id(whole, kLabel, context)};
}

Result<MemberWatch> meet_others(int listener, const WatchSecret& secret, std::size_t members,
                                Deadline deadline) {
  Reception reception(listener, secret, members);
  while (!reception.is_complete()) {
    if (deadline.passed())
      return make_error(Code::kTimeout, "{} of {} members of its group have not connected to it",
                        reception.missing(), members - 1);
    TUTTI_TRY(reception.serve());
    if (!reception.is_complete()) reception.wait(deadline);
  }
  return MemberWatch(reception.take());
}

Result<MemberWatch> meet_first(const SocketAddress& address, const WatchSecret& secret,
                               std::size_t place, Deadline deadline) {
  TUTTI_ASSIGN(Fd fd, connect_to(address, deadline));
  const auto shaken = shake_hands(
      fd.get(),
      {.role = HandshakeRole::kInitiator,
       .purpose = Purpose::kControl,
       .self = {.token = random_u64(), .rank = static_cast<Rank>(place), .group = secret.id},
       .key = secret.key,
       .peer_name = "the first member at " + to_text(address)},
      deadline);
  if (!shaken) return shaken.error();
  std::vector<Fd> connections;
  connections.push_back(std::move(fd));
  return MemberWatch(std::move(connections));
}

}  // namespace tutti::collnet
