#include "src/bootstrap/local_meeting.hpp"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"
#include "src/wire/net.hpp"

namespace tutti {
namespace {

struct UnixAddress {
  sockaddr_un address{};
  socklen_t length = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

// Anyone can take a name, so there are several: rank 0 takes the first that no other user holds,
// and the others pass over what other users hold. Who means harm can take all of them.
constexpr int kNames = 8;
// An id is sent as soon as the kernel has accepted the connection.
constexpr auto kAnswer = std::chrono::seconds(2);

/// The k-th name. In the abstract name space: no file, gone with its owner.
UnixAddress address_of(const std::string& name, int k) {
  const std::string full =
      fmt::format("tutti-{}-{:016x}-{}", ::geteuid(), checksum(as_bytes(name)), k);
  UnixAddress result;
  result.address.sun_family = AF_UNIX;
  std::memcpy(result.address.sun_path + 1, full.data(), full.size());
  result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + full.size());
  return result;
}

/// Who is at the other end; nothing when that cannot be told.
std::optional<ucred> peer_of(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return std::nullopt;
  return peer;
}

bool same_user(int fd) {
  const auto peer = peer_of(fd);
  return peer && peer->uid == ::geteuid();
}

/// A connection to whoever holds a name; empty, and why in errno, when there is none.
Result<Fd> reach(const UnixAddress& address) {
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return system_error(Code::kUnavailable, errno, "cannot open a local socket");
  // EAGAIN: whoever holds the name accepts nobody.
  if (::connect(fd.get(), address.get(), address.length) != 0) {
    const int why = errno;
    fd.reset();
    errno = why;
  }
  return fd;
}

/// Listens at the first name that is free, but for those of other users.
Result<Fd> listen_at(const std::string& name) {
  for (int k = 0;; ++k) {
    Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const UnixAddress address = address_of(name, k);
    if (listener && ::bind(listener.get(), address.get(), address.length) == 0 &&
        ::listen(listener.get(), 4096) == 0)
      return listener;
    const int failure = errno;
    const std::string what =
        fmt::format("cannot meet the other ranks of \"{}\" on this host", name);
    if (failure != EADDRINUSE) return system_error(Code::kUnavailable, failure, what);
    TUTTI_ASSIGN(const Fd holder, reach(address));
    const auto peer = holder ? peer_of(holder.get()) : std::nullopt;
    const bool others = peer && peer->uid != ::geteuid();
    if (others && k + 1 < kNames) continue;
    return system_error(Code::kUnavailable, failure,
                        fmt::format("{}: process {} {}; does another job use the same name?", what,
                                    peer ? std::to_string(peer->pid) : "?",
                                    others ? "of another user, and others, hold all its places"
                                           : "holds its place"));
  }
}

}  // namespace

Result<std::unique_ptr<LocalOffer>> LocalOffer::open(std::shared_ptr<Service> service,
                                                     const std::string& name, const UniqueId& id) {
  TUTTI_ASSIGN(Fd listener, listen_at(name));
  std::unique_ptr<LocalOffer> offer(
      new LocalOffer(std::move(service), std::move(listener), encode(id)));  // NOLINT
  TUTTI_ASSIGN(offer->watch_, offer->service_->call([raw = offer.get()] {
    return raw->service_->watch(raw->listener_.get(), EPOLLIN, [raw](auto) { raw->hand_out(); });
  }));
  return offer;
}

LocalOffer::LocalOffer(std::shared_ptr<Service> service, Fd listener, const UniqueIdBytes& id)
    : service_(std::move(service)), listener_(std::move(listener)), id_(id) {}

LocalOffer::~LocalOffer() {
  if (watch_ != 0) service_->call([this] { service_->unwatch(watch_); });
  wipe(id_);
}

void LocalOffer::hand_out() {
  for (;;) {
    const auto fd = accept_on(listener_.get());
    if (!fd || !*fd) return;
    if (!same_user(fd->get())) continue;
    // 128 bytes fit an empty socket buffer.
    (void)::send(fd->get(), id_.data(), id_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

namespace {

/// What kept others from being rank 0, for the error.
struct Impostor {
  pid_t process = 0;  ///< 0: none, or one that accepts nobody
  bool other_user = false;
  bool accepts_nobody = false;
};

/// Nothing when nobody offers yet.
Result<std::optional<UniqueId>> try_fetch(const UnixAddress& address, Deadline deadline,
                                          Impostor& impostor) {
  TUTTI_ASSIGN(const Fd fd, reach(address));
  if (!fd) {
    impostor.accepts_nobody |= errno == EAGAIN;
    return std::optional<UniqueId>();
  }
  const auto peer = peer_of(fd.get());
  if (!peer) return std::optional<UniqueId>();
  impostor = {peer->pid, peer->uid != ::geteuid(), false};
  if (impostor.other_user) return std::optional<UniqueId>();
  UniqueIdBytes bytes{};
  if (!recv_all(fd.get(), bytes, deadline.within(kAnswer))) return std::optional<UniqueId>();
  TUTTI_ASSIGN(auto id, decode_unique_id(bytes));
  return std::optional(std::move(id));
}

}  // namespace

Result<UniqueId> fetch_local(const std::string& name, Deadline deadline) {
  Impostor impostor;
  for (int attempt = 0;; ++attempt) {
    for (int k = 0; k < kNames; ++k) {
      TUTTI_ASSIGN(auto id, try_fetch(address_of(name, k), deadline, impostor));
      if (id) return *std::move(id);
    }
    if (deadline.passed()) {
      const std::string whom =
          impostor.process == 0
              ? std::string(
                    impostor.accepts_nobody ? "; a process holds its place and accepts nobody" : "")
              : fmt::format("; process {} {} holds its place and hands out no id", impostor.process,
                            impostor.other_user ? "of another user" : "of this user");
      return make_error(Code::kTimeout,
                        "rank 0 of \"{}\" was not found on this host: it has not started, runs as "
                        "another user, or in another network namespace{}",
                        name, whom);
    }
    back_off(attempt, deadline);
  }
}

}  // namespace tutti
