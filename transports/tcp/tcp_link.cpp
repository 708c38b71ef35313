#include "transports/tcp/tcp_link.hpp"

#include <array>
#include <cerrno>

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "src/base/result.hpp"

namespace tutti {
namespace {

// Reading the clock costs as much as a fruitless recv's share of it; once in so many is enough.
constexpr std::uint32_t kChecksPerLook = 256;
// Bytes that a socket which shares its load holds back: enough to keep it busy until its sender
// comes round again, and little next to what the network takes.
constexpr int kMostUnsent = 256 << 10;
// A closing socket throws away so much input at a time, so often before it looks at its output.
constexpr std::size_t kScrap = 4096;
constexpr int kMostScraps = 256;

void set_option(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

msghdr message_of(std::span<const iovec> pieces) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  return message;
}

Result<std::size_t> moved_or_error(ssize_t moved, const char* doing) {
  if (moved >= 0) return static_cast<std::size_t>(moved);
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return std::size_t{0};
  return system_error(Code::kPeerFailed, errno, doing);
}

}  // namespace

// No TCP_USER_TIMEOUT: it also ends connections to a live process that has not read for a while
// (its zero window counts as silence), which a rank busy computing is. Keepalive watches an idle
// connection, host_is_silent() one with data in flight.
TcpLink::TcpLink(Fd fd, Nanos liveness, Load load)
    : fd_(std::move(fd)), liveness_(liveness), next_look_(Clock::now() + liveness / 4) {
  const auto seconds = static_cast<int>(std::max<std::int64_t>(
      1, std::chrono::duration_cast<std::chrono::seconds>(liveness).count()));
  set_option(fd_.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, 0);
  if (load == Load::kShared) set_option(fd_.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, kMostUnsent);
  set_option(fd_.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd_.get(), IPPROTO_TCP, TCP_KEEPIDLE, std::max(1, seconds / 3));
  set_option(fd_.get(), IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, seconds / 6));
  set_option(fd_.get(), IPPROTO_TCP, TCP_KEEPCNT, 4);
}

// The kernel copies and checks a msghdr and its pieces: one piece goes without, which saves a tenth
// of a microsecond.
Result<std::size_t> TcpLink::write(std::span<const iovec> pieces) {
  constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
  if (pieces.size() == 1)
    return moved_or_error(::send(fd_.get(), pieces[0].iov_base, pieces[0].iov_len, kFlags),
                          "writing to the socket");
  const msghdr message = message_of(pieces);
  return moved_or_error(::sendmsg(fd_.get(), &message, kFlags), "writing to the socket");
}

Result<std::size_t> TcpLink::read(std::span<const iovec> pieces) {
  msghdr message = message_of(pieces);
  const ssize_t got = pieces.size() == 1
                          ? ::recv(fd_.get(), pieces[0].iov_base, pieces[0].iov_len, MSG_DONTWAIT)
                          : ::recvmsg(fd_.get(), &message, MSG_DONTWAIT);
  if (got == 0) return make_error(Code::kPeerFailed, "it ended without a goodbye");
  return moved_or_error(got, "reading from the socket");
}

Result<bool> TcpLink::check() {
  if (++checks_ % kChecksPerLook != 0) return false;
  const TimePoint now = Clock::now();
  if (now < next_look_) return false;
  next_look_ = now + liveness_ / 4;
  if (host_is_silent(now))
    return system_error(Code::kPeerFailed, ETIMEDOUT,
                        fmt::format("its host has acknowledged nothing for {:.1f} s",
                                    std::chrono::duration<double>(liveness_).count()));
  return false;
}

// Sent data, or repeated probes of a closed window, without an answer. A process that only does not
// read has its probes answered by its kernel. The same data must have waited for that long: the
// last acknowledgement before it is old where the connection was idle.
bool TcpLink::host_is_silent(TimePoint now) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  const bool waits_for_answer = info.tcpi_unacked > 0 || info.tcpi_probes >= 2;
  if (!waits_for_answer || info.tcpi_bytes_acked != acknowledged_) {
    acknowledged_ = info.tcpi_bytes_acked;
    waiting_since_ = now;
  }
  return now - waiting_since_ >= liveness_ &&
         std::chrono::milliseconds(info.tcpi_last_ack_recv) > liveness_;
}

// Closing a socket with unread input resets it, which would lose output still under way: so output
// ends first, and input is thrown away until all of the output is acknowledged.
bool TcpLink::finish() {
  ::shutdown(fd_.get(), SHUT_WR);
  std::array<std::byte, kScrap> scrap;
  ssize_t got = 1;
  for (int i = 0; i < kMostScraps && got > 0; ++i)
    got = ::recv(fd_.get(), scrap.data(), scrap.size(), MSG_DONTWAIT);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return true;
  int unacknowledged = 0;
  const bool known = ::ioctl(fd_.get(), SIOCOUTQ, &unacknowledged) == 0;
  return !known || unacknowledged <= 1;  // the FIN
}

void TcpLink::shutdown() { ::shutdown(fd_.get(), SHUT_RDWR); }

}  // namespace tutti
