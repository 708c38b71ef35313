#include "src/plugin/mock/stream.hpp"

#include <algorithm>
#include <cerrno>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace tutti::plugin::mock {
namespace {

constexpr std::size_t kLargestHostileStep = 40000;

sockaddr_in loopback(std::uint32_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

void send_at_once(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

std::size_t step_of(const Transfer& transfer, Dice& dice) {
  const std::size_t left = transfer.bytes - transfer.done;
  return dice.hostile() ? std::min<std::size_t>(left, 1 + dice.roll(kLargestHostileStep)) : left;
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

Fd listen_on_loopback(Address& address) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in own = loopback(0);
  socklen_t size = sizeof own;
  if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0)
    return {};
  address = {};
  address.port = ntohs(own.sin_port);
  return fd;
}

Fd accept_one(int listener) {
  Fd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd) send_at_once(fd.get());
  return fd;
}

Fd dial(const Address& address) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in there = loopback(address.port);
  if (!fd || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&there), sizeof there) != 0)
    return {};
  send_at_once(fd.get());
  return fd;
}

bool has_bytes(int fd) {
  char byte = 0;
  return ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

abi::Outcome send_some(int fd, Transfer& transfer, Dice& dice) {
  while (!transfer.is_over()) {
    const ssize_t sent = ::send(fd, transfer.data + transfer.done, step_of(transfer, dice),
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return would_block() ? abi::kSuccess : abi::kRemoteError;
    transfer.done += static_cast<std::size_t>(sent);
    if (dice.one_in(2)) break;
  }
  return abi::kSuccess;
}

abi::Outcome receive_some(int fd, Transfer& transfer, Dice& dice) {
  while (!transfer.is_over()) {
    const ssize_t got =
        ::recv(fd, transfer.data + transfer.done, step_of(transfer, dice), MSG_DONTWAIT);
    if (got < 0) return would_block() ? abi::kSuccess : abi::kRemoteError;
    if (got == 0) return abi::kRemoteError;
    transfer.done += static_cast<std::size_t>(got);
    if (dice.one_in(2)) break;
  }
  return abi::kSuccess;
}

}  // namespace tutti::plugin::mock
