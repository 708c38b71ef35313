#include "src/wire/local_socket.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include <poll.h>
#include <sys/un.h>
#include <unistd.h>

#include "src/base/result.hpp"

namespace tutti {
namespace {

struct UnixName {
  sockaddr_un address{};
  socklen_t size = 0;
};

UnixName abstract(const std::string& name) {
  UnixName unix_name;
  unix_name.address.sun_family = AF_UNIX;
  const std::size_t size = name.copy(unix_name.address.sun_path + 1,  // behind a zero byte
                                     sizeof(unix_name.address.sun_path) - 1);
  unix_name.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  return unix_name;
}

Result<Fd> unix_socket() {
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error(Code::kUnavailable, errno, "socket(AF_UNIX)");
  return fd;
}

Status check_user(int socket) {
  TUTTI_ASSIGN(const ucred peer, credentials(socket));
  if (peer.uid != ::geteuid())
    return make_error(Code::kPeerFailed, "a process of user {} knocked; this one is of user {}",
                      peer.uid, ::geteuid());
  return ok_status();
}

/// The descriptors that came with a message: the first is returned, any other closed.
Fd take_descriptor(msghdr& message) {
  Fd first;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      Fd taken(fd);
      if (!first) first = std::move(taken);
    }
  }
  return first;
}

}  // namespace

Result<Fd> listen_local(const std::string& name) {
  TUTTI_ASSIGN(Fd fd, unix_socket());
  const UnixName at = abstract(name);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&at.address), at.size) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0)
    return system_error(Code::kUnavailable, errno, "listening on an abstract unix socket");
  return fd;
}

Result<Fd> accept_local(int listener) {
  Fd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd && (errno == EMFILE || errno == ENFILE))
    return system_error(Code::kUnavailable, errno,
                        "accepting a peer over a unix socket; raise `ulimit -n`");
  if (fd && !check_user(fd.get())) fd.reset();
  return fd;
}

Result<Fd> dial_local(const std::string& name) {
  TUTTI_ASSIGN(Fd fd, unix_socket());
  const UnixName at = abstract(name);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&at.address), at.size) != 0)
    return system_error(Code::kPeerFailed, errno, "connecting over an abstract unix socket");
  TUTTI_TRY(check_user(fd.get()));
  return fd;
}

Result<ucred> credentials(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return system_error(Code::kPeerFailed, errno, "SO_PEERCRED");
  return peer;
}

Status send_with_fd(int socket, std::span<const std::byte> bytes, int fd) {
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof fd)> control{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != static_cast<ssize_t>(bytes.size()))
    return system_error(Code::kPeerFailed, errno, "passing a descriptor to a peer");
  return ok_status();
}

Result<ReceivedWithFd> receive_with_fd(int socket, std::span<std::byte> bytes, Rank peer,
                                       std::string_view what, Deadline deadline) {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(4 * sizeof(int))> control{};
  for (;;) {
    iovec piece{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got > 0) {  // a short message on a unix socket arrives in one piece
      Fd fd = take_descriptor(message);
      if (!fd && (message.msg_flags & MSG_CTRUNC) != 0)
        return system_error(Code::kUnavailable, EMFILE,
                            fmt::format("taking {} from rank {}; raise `ulimit -n`", what, peer));
      return ReceivedWithFd{static_cast<std::size_t>(got), std::move(fd)};
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR))
      return peer_error(Code::kPeerFailed, peer, "rank {} ended before it had sent {}", peer, what);
    if (deadline.passed())
      return peer_error(Code::kTimeout, peer, "rank {} did not send {} before the deadline", peer,
                        what);
    pollfd readable{socket, POLLIN, 0};
    ::poll(&readable, 1, deadline.poll_ms(1000));
  }
}

}  // namespace tutti
