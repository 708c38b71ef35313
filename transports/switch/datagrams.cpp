#include "transports/switch/datagrams.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <netinet/udp.h>

#include "src/base/result.hpp"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace tutti::in_network {
namespace {

constexpr int kBufferBytes = 8 << 20;

/// Beyond the system's limit where that is allowed.
void enlarge(int fd, int option, int forced) {
  const int bytes = kBufferBytes;
  if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof bytes) != 0)
    (void)setsockopt(fd, SOL_SOCKET, option, &bytes, sizeof bytes);
}

}  // namespace

DatagramAddress datagram_address(const SocketAddress& address) {
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

namespace {

void tell_own_addresses(int fd, const SocketAddress& bound) {
  if (bound.address != decltype(bound.address){}) return;  // there is one only
  const int on = 1;
  if (bound.family == 6)
    (void)setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on);
  else
    (void)setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
}

/// From what the kernel tells of an arrival to what makes an answer leave from there, by whichever
/// interface leads to the peer.
OwnAddress own_address(const cmsghdr& told) {
  OwnAddress own{.level = told.cmsg_level, .type = told.cmsg_type};
  if (told.cmsg_level == IPPROTO_IP) {
    in_pktinfo info{};
    std::memcpy(&info, CMSG_DATA(&told), sizeof info);
    info = {.ipi_ifindex = 0, .ipi_spec_dst = info.ipi_addr, .ipi_addr = {}};
    own.bytes = sizeof info;
    std::memcpy(own.info.data(), &info, sizeof info);
  } else {
    own.bytes = sizeof(in6_pktinfo);
    std::memcpy(own.info.data(), CMSG_DATA(&told), own.bytes);
    in6_addr address{};
    std::memcpy(&address, own.info.data(), sizeof address);
    if (!IN6_IS_ADDR_LINKLOCAL(&address)) {
      const in6_pktinfo info{.ipi6_addr = address, .ipi6_ifindex = 0};
      std::memcpy(own.info.data(), &info, sizeof info);
    }
  }
  return own;
}

bool tells_own_address(const cmsghdr& told) {
  return (told.cmsg_level == IPPROTO_IP && told.cmsg_type == IP_PKTINFO) ||
         (told.cmsg_level == IPPROTO_IPV6 && told.cmsg_type == IPV6_PKTINFO);
}

}  // namespace

Result<Fd> open_datagrams(const SocketAddress& address) {
  Fd fd(socket(address.family == 6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
               0));
  if (!fd) return make_error(Code::kUnavailable, "socket: {}", std::strerror(errno));
  enlarge(fd.get(), SO_RCVBUF, SO_RCVBUFFORCE);
  enlarge(fd.get(), SO_SNDBUF, SO_SNDBUFFORCE);
  const int on = 1;  // an old kernel delivers each packet by itself
  (void)setsockopt(fd.get(), IPPROTO_UDP, UDP_GRO, &on, sizeof on);
  tell_own_addresses(fd.get(), address);
  const DatagramAddress own = datagram_address(address);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&own.storage), own.length) != 0)
    return make_error(Code::kUnavailable, "cannot bind UDP {}: {}", to_text(address),
                      std::strerror(errno));
  return fd;
}

Status connect_datagrams(int fd, const SocketAddress& address) {
  const DatagramAddress to = datagram_address(address);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&to.storage), to.length) != 0)
    return make_error(Code::kUnavailable, "cannot reach UDP {}: {}", to_text(address),
                      std::strerror(errno));
  return ok_status();
}

bool can_segment(int fd) {
  int size = 0;
  socklen_t length = sizeof size;
  return getsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &size, &length) == 0;
}

DatagramReader::DatagramReader()
    : rooms_(kBatch),
      sources_(kBatch),
      own_(kBatch),
      controls_(kBatch),
      pieces_(kBatch),
      messages_(kBatch) {
  for (std::size_t i = 0; i < kBatch; ++i) {
    pieces_[i] = {rooms_[i].data(), rooms_[i].size()};
    messages_[i].msg_hdr.msg_iov = &pieces_[i];
    messages_[i].msg_hdr.msg_iovlen = 1;
    messages_[i].msg_hdr.msg_name = &sources_[i];
    messages_[i].msg_hdr.msg_control = controls_[i].bytes.data();
  }
}

std::span<const DatagramReader::Datagram> DatagramReader::receive(int fd) {
  for (mmsghdr& message : messages_) {
    message.msg_hdr.msg_namelen = sizeof(sockaddr_storage);
    message.msg_hdr.msg_controllen = sizeof(Control);
  }
  datagrams_.clear();
  const int count = recvmmsg(fd, messages_.data(), kBatch, MSG_DONTWAIT, nullptr);
  for (int i = 0; i < count; ++i) cut(static_cast<std::size_t>(i));
  return datagrams_;
}

/// The kernel tells the size of the packets that it has put together; the last may be shorter.
void DatagramReader::cut(std::size_t message) {
  std::size_t size = messages_[message].msg_len;
  own_[message] = {};
  for (cmsghdr* each = CMSG_FIRSTHDR(&messages_[message].msg_hdr); each != nullptr;
       each = CMSG_NXTHDR(&messages_[message].msg_hdr, each)) {
    if (tells_own_address(*each)) own_[message] = own_address(*each);
    if (each->cmsg_level != IPPROTO_UDP || each->cmsg_type != UDP_GRO) continue;
    int told = 0;
    std::memcpy(&told, CMSG_DATA(each), sizeof told);
    if (told > 0) size = static_cast<std::size_t>(told);
  }
  std::span<const std::byte> rest(rooms_[message].data(), messages_[message].msg_len);
  do {
    const std::size_t bytes = std::min(size, rest.size());
    datagrams_.push_back({rest.first(bytes), message});
    rest = rest.subspan(bytes);
  } while (!rest.empty());
}

DatagramAddress DatagramReader::source(const Datagram& datagram) const {
  return {sources_[datagram.message], messages_[datagram.message].msg_hdr.msg_namelen,
          own_[datagram.message]};
}

DatagramWriter::DatagramWriter(bool segments)
    : segments_(segments),
      rooms_(kPackets),
      pieces_(kPackets),
      receivers_(kMessages),
      controls_(kMessages) {
  messages_.reserve(kMessages);
}

void DatagramWriter::say_beside(std::size_t message, int level, int type,
                                std::span<const std::byte> what) {
  msghdr& header = messages_[message].msg_hdr;
  std::byte* const room = controls_[message].bytes.data();
  auto* const said = reinterpret_cast<cmsghdr*>(room + header.msg_controllen);
  said->cmsg_level = level;
  said->cmsg_type = type;
  said->cmsg_len = CMSG_LEN(what.size());
  std::memcpy(CMSG_DATA(said), what.data(), what.size());
  header.msg_control = room;
  header.msg_controllen += CMSG_SPACE(what.size());
}

bool DatagramWriter::joins(std::span<const DatagramAddress* const> receivers) const {
  return segments_ && run_.is_open && run_.packets < kMostInARun && sent_ == 0 &&
         std::ranges::equal(run_receivers_, receivers);
}

void DatagramWriter::add(std::size_t bytes, std::span<const DatagramAddress* const> receivers) {
  if (joins(receivers)) {
    constexpr std::uint16_t kSize = kMostPacketBytes;  // that the kernel is to cut it into
    for (std::size_t i = run_.first; run_.packets == 1 && i < messages_.size(); ++i)
      say_beside(i, IPPROTO_UDP, UDP_SEGMENT, std::as_bytes(std::span(&kSize, 1)));
    run_.piece->iov_len += bytes;
    ++run_.packets;
  } else {
    begin_run(bytes, receivers);
  }
  run_.is_open = bytes == kMostPacketBytes;
  ++packets_;
}

void DatagramWriter::begin_run(std::size_t bytes,
                               std::span<const DatagramAddress* const> receivers) {
  run_ = {&pieces_[runs_++], 1, messages_.size()};
  *run_.piece = {rooms_[packets_].data(), bytes};
  run_receivers_.assign(receivers.begin(), receivers.end());
  mmsghdr message{};
  message.msg_hdr.msg_iov = run_.piece;
  message.msg_hdr.msg_iovlen = 1;
  if (receivers.empty()) messages_.push_back(message);
  for (const DatagramAddress* receiver : receivers) {
    sockaddr_storage& to = receivers_[messages_.size()];
    to = receiver->storage;
    message.msg_hdr.msg_name = &to;
    message.msg_hdr.msg_namelen = receiver->length;
    messages_.push_back(message);
    const OwnAddress& own = receiver->own;
    if (own.bytes != 0)
      say_beside(messages_.size() - 1, own.level, own.type, std::span(own.info).first(own.bytes));
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
    const bool is_run = messages_[sent_].msg_hdr.msg_iov->iov_len > kMostPacketBytes;
    if (is_run && (errno == EINVAL || errno == EMSGSIZE || errno == EIO)) segments_ = false;
    lose_next();
  }
  drop();
  return true;
}

void DatagramWriter::lose_next() {
  const std::size_t bytes = messages_[sent_++].msg_hdr.msg_iov->iov_len;
  lost_ += (bytes + kMostPacketBytes - 1) / kMostPacketBytes;
}

void DatagramWriter::drop() {
  while (sent_ < messages_.size()) lose_next();
  messages_.clear();
  packets_ = runs_ = sent_ = 0;
  run_ = {};
}

}  // namespace tutti::in_network
