#include "transports/nccl_net/control_socket.hpp"

#include <array>
#include <cerrno>

#include <sys/socket.h>

#include "src/base/result.hpp"

namespace tutti::nccl_net {
namespace {

bool is_for_later(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

void ControlSocket::say(const ControlMessage& message) {
  const Blob bytes = encode(message);
  out_.insert(out_.end(), bytes.begin(), bytes.end());
  flush();
}

void ControlSocket::flush() {
  while (!out_.empty() && !ended_) {
    const ssize_t sent = ::send(fd_.get(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && is_for_later(errno)) return;
    if (sent < 0) return;  // what the peer said last may still be there to read
    out_.erase(out_.begin(), out_.begin() + sent);
  }
}

Status ControlSocket::listen(const std::function<Status(const ControlMessage&)>& obey) {
  std::array<std::byte, 1024> buffer;
  while (!ended_) {
    const ssize_t got = ::recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && is_for_later(errno)) break;
    if (got <= 0) {
      ended_ = true;
      break;
    }
    in_.insert(in_.end(), buffer.begin(), buffer.begin() + got);
  }
  std::size_t taken = 0;
  for (;;) {
    TUTTI_ASSIGN(const auto decoded, decode_control(std::span(in_).subspan(taken)));
    if (!decoded) break;
    taken += decoded->bytes;
    TUTTI_TRY(obey(decoded->message));
  }
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(taken));
  return ok_status();
}

void ControlSocket::shutdown() {
  ended_ = true;
  ::shutdown(fd_.get(), SHUT_RDWR);
}

}  // namespace tutti::nccl_net
