#include "transports/switch/datagrams.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/result.hpp"

namespace tutti::in_network {
namespace {

constexpr int kBufferBytes = 8 << 20;

/// Beyond the system's limit where that is allowed.
void enlarge(int fd, int option, int forced) {
  const int bytes = kBufferBytes;
  if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof bytes) != 0)
    (void)setsockopt(fd, SOL_SOCKET, option, &bytes, sizeof bytes);
}

DatagramAddress kernel_address(const SocketAddress& address) {
  DatagramAddress out;
  if (address.family == 6) {
    auto& to = reinterpret_cast<sockaddr_in6&>(out.storage);
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(address.port);
    to.sin6_scope_id = address.scope;
    std::memcpy(&to.sin6_addr, address.address.data(), sizeof to.sin6_addr);
    out.length = sizeof to;
  } else {
    auto& to = reinterpret_cast<sockaddr_in&>(out.storage);
    to.sin_family = AF_INET;
    to.sin_port = htons(address.port);
    std::memcpy(&to.sin_addr, address.address.data(), sizeof to.sin_addr);
    out.length = sizeof to;
  }
  return out;
}

}  // namespace

Result<Fd> open_datagrams(const SocketAddress& address) {
  Fd fd(socket(address.family == 6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
               0));
  if (!fd) return make_error(Code::kUnavailable, "socket: {}", std::strerror(errno));
  enlarge(fd.get(), SO_RCVBUF, SO_RCVBUFFORCE);
  enlarge(fd.get(), SO_SNDBUF, SO_SNDBUFFORCE);
  const DatagramAddress own = kernel_address(address);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&own.storage), own.length) != 0)
    return make_error(Code::kUnavailable, "cannot bind UDP {}: {}", to_text(address),
                      std::strerror(errno));
  return fd;
}

Status connect_datagrams(int fd, const SocketAddress& address) {
  const DatagramAddress to = kernel_address(address);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&to.storage), to.length) != 0)
    return make_error(Code::kUnavailable, "cannot reach UDP {}: {}", to_text(address),
                      std::strerror(errno));
  return ok_status();
}

DatagramReader::DatagramReader()
    : rooms_(kBatch), sources_(kBatch), pieces_(kBatch), messages_(kBatch) {
  for (std::size_t i = 0; i < kBatch; ++i) {
    pieces_[i] = {rooms_[i].data(), rooms_[i].size()};
    messages_[i].msg_hdr.msg_iov = &pieces_[i];
    messages_[i].msg_hdr.msg_iovlen = 1;
    messages_[i].msg_hdr.msg_name = &sources_[i];
  }
}

std::size_t DatagramReader::receive(int fd) {
  for (mmsghdr& message : messages_) message.msg_hdr.msg_namelen = sizeof(sockaddr_storage);
  const int count = recvmmsg(fd, messages_.data(), kBatch, MSG_DONTWAIT, nullptr);
  return count > 0 ? static_cast<std::size_t>(count) : 0;
}

DatagramAddress DatagramReader::source(std::size_t i) const {
  return {sources_[i], messages_[i].msg_hdr.msg_namelen};
}

DatagramWriter::DatagramWriter() : rooms_(kPackets), pieces_(kPackets), receivers_(kMessages) {
  messages_.reserve(kMessages);
}

void DatagramWriter::add(std::size_t bytes, std::span<const DatagramAddress* const> receivers) {
  iovec& piece = pieces_[packets_];
  piece = {rooms_[packets_].data(), bytes};
  ++packets_;
  mmsghdr message{};
  message.msg_hdr.msg_iov = &piece;
  message.msg_hdr.msg_iovlen = 1;
  if (receivers.empty()) messages_.push_back(message);
  for (const DatagramAddress* receiver : receivers) {
    sockaddr_storage& to = receivers_[messages_.size()];
    to = receiver->storage;
    message.msg_hdr.msg_name = &to;
    message.msg_hdr.msg_namelen = receiver->length;
    messages_.push_back(message);
  }
}

bool DatagramWriter::flush(int fd) {
  while (sent_ < messages_.size()) {
    const int count =
        sendmmsg(fd, messages_.data() + sent_, static_cast<unsigned>(messages_.size() - sent_),
                 MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count > 0) {
      sent_ += static_cast<std::size_t>(count);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) return false;
    ++sent_;  // a receiver that is gone: as if the network had lost it
  }
  drop();
  return true;
}

std::size_t DatagramWriter::drop() {
  const std::size_t left = messages_.size() - sent_;
  messages_.clear();
  packets_ = sent_ = 0;
  return left;
}

}  // namespace tutti::in_network
