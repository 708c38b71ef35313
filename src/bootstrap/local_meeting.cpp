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

/// In the abstract name space: no file, gone with its owner.
UnixAddress address_of(const std::string& name) {
  const std::string full = fmt::format("tutti-{}-{:016x}", ::geteuid(), checksum(as_bytes(name)));
  UnixAddress result;
  result.address.sun_family = AF_UNIX;
  std::memcpy(result.address.sun_path + 1, full.data(), full.size());
  result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + full.size());
  return result;
}

bool same_user(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == ::geteuid();
}

}  // namespace

Result<std::unique_ptr<LocalOffer>> LocalOffer::open(std::shared_ptr<Service> service,
                                                     const std::string& name, const UniqueId& id) {
  Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const UnixAddress address = address_of(name);
  if (!listener || ::bind(listener.get(), address.get(), address.length) != 0 ||
      ::listen(listener.get(), 4096) != 0) {
    return system_error(Code::kUnavailable, errno,
                        fmt::format("cannot meet the other ranks of \"{}\" on this host (does "
                                    "another job use the same name?)",
                                    name));
  }
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

/// Nothing when nobody offers yet.
Result<std::optional<UniqueId>> try_fetch(const UnixAddress& address, Deadline deadline) {
  const Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return system_error(Code::kUnavailable, errno, "cannot open a local socket");
  if (::connect(fd.get(), address.get(), address.length) != 0) return std::optional<UniqueId>();
  if (!same_user(fd.get())) {
    return make_error(Code::kInvalidUsage,
                      "a process of another user answers in the place of rank 0 on this host");
  }
  UniqueIdBytes bytes{};
  const Status came = recv_all(fd.get(), bytes, deadline);
  if (!came && came.error().code == Code::kPeerFailed) return std::optional<UniqueId>();
  TUTTI_TRY(came);
  TUTTI_ASSIGN(auto id, decode_unique_id(bytes));
  return std::optional(std::move(id));
}

}  // namespace

Result<UniqueId> fetch_local(const std::string& name, Deadline deadline) {
  const UnixAddress address = address_of(name);
  for (int attempt = 0;; ++attempt) {
    TUTTI_ASSIGN(auto id, try_fetch(address, deadline));
    if (id) return *std::move(id);
    if (deadline.passed()) {
      return make_error(Code::kTimeout,
                        "rank 0 of \"{}\" was not found on this host: it has not started, runs as "
                        "another user, or in another network namespace",
                        name);
    }
    back_off(attempt, deadline);
  }
}

}  // namespace tutti
