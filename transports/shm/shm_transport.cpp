#include "transports/shm/shm_transport.hpp"

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "src/base/result.hpp"
#include "src/wire/message_engine.hpp"
#include "src/wire/peer_listener.hpp"
#include "transports/shm/introduction.hpp"
#include "transports/shm/shm_address.hpp"
#include "transports/shm/shm_link.hpp"

namespace tutti {
namespace {

Status send_introduction(int socket, int heap, const Introduction& said) {
  Blob bytes = encode(said);
  iovec piece{bytes.data(), bytes.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof heap)> control{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof heap);
  std::memcpy(CMSG_DATA(header), &heap, sizeof heap);
  const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != static_cast<ssize_t>(bytes.size()))
    return system_error(Code::kPeerFailed, errno, "passing the shared heap to a peer");
  return ok_status();
}

// The descriptors that came with a message: the first is returned, any other closed.
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

struct Introduced {
  Introduction said;
  Fd heap;
};

// One sendmsg of a few bytes on a unix socket arrives in one piece.
Result<Introduced> receive_introduction(int socket, const PeerProcess& peer, Deadline deadline) {
  std::array<std::byte, kIntroductionBytes> bytes;
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(4 * sizeof(int))> control{};
  for (;;) {
    iovec piece{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got > 0) {
      Fd heap = take_descriptor(message);
      if (!heap && (message.msg_flags & MSG_CTRUNC) != 0)
        return system_error(Code::kUnavailable, EMFILE,
                            fmt::format("taking the descriptor of rank {}'s shared heap; raise "
                                        "`ulimit -n`",
                                        peer.rank));
      TUTTI_ASSIGN(const Introduction said,
                   decode_introduction(std::span(bytes).first(static_cast<std::size_t>(got))));
      return Introduced{said, std::move(heap)};
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR))
      return peer_error(Code::kPeerFailed, peer.rank, "rank {} ended while connecting over shm",
                        peer.rank);
    if (deadline.passed())
      return peer_error(Code::kTimeout, peer.rank,
                        "rank {} did not share its heap before the deadline", peer.rank);
    pollfd readable{socket, POLLIN, 0};
    ::poll(&readable, 1, deadline.poll_ms(1000));
  }
}

struct UnixName {
  sockaddr_un address{};
  socklen_t size = 0;
};

UnixName abstract(const std::string& name) {
  UnixName unix_name;
  unix_name.address.sun_family = AF_UNIX;
  name.copy(unix_name.address.sun_path + 1, sizeof(unix_name.address.sun_path) - 1);
  unix_name.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return unix_name;
}

Result<Fd> unix_socket() {
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error(Code::kUnavailable, errno, "socket(AF_UNIX)");
  return fd;
}

Result<Fd> listen_at(const std::string& name) {
  TUTTI_ASSIGN(Fd fd, unix_socket());
  const UnixName at = abstract(name);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&at.address), at.size) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0)
    return system_error(Code::kUnavailable, errno, "listening on an abstract unix socket");
  return fd;
}

Result<ucred> credentials(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return system_error(Code::kPeerFailed, errno, "SO_PEERCRED");
  return peer;
}

Status check_user(int socket) {
  TUTTI_ASSIGN(const ucred peer, credentials(socket));
  if (peer.uid != ::geteuid())
    return make_error(Code::kPeerFailed, "a process of user {} knocked; this one is of user {}",
                      peer.uid, ::geteuid());
  return ok_status();
}

Result<Fd> accept_local(int listener) {
  Fd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd && (errno == EMFILE || errno == ENFILE))
    return system_error(Code::kUnavailable, errno, "accepting a peer over shm; raise `ulimit -n`");
  if (fd && !check_user(fd.get())) fd.reset();
  return fd;
}

Result<Fd> dial_local(std::span<const std::byte> address, Deadline) {
  TUTTI_ASSIGN(const ShmAddress where, decode_shm_address(address));
  TUTTI_ASSIGN(Fd fd, unix_socket());
  const UnixName at = abstract(where.socket_name);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&at.address), at.size) != 0)
    return system_error(Code::kPeerFailed, errno, "connecting over an abstract unix socket");
  TUTTI_TRY(check_user(fd.get()));
  return fd;
}

class ShmTransport final : public Transport {
 public:
  ShmTransport(std::shared_ptr<SharedHeap> heap, ShmAddress address, Fd listener,
               const ShmOptions& options)
      : heap_(std::move(heap)),
        yard_(std::make_shared<RingYard>(heap_)),
        address_(std::move(address)),
        ring_bytes_(options.ring_bytes),
        peers_(std::move(listener), options.token, "shm",
               {.accept = accept_local,
                .dial = dial_local,
                .greet = [this](int socket) { return greet(socket); },
                .make =
                    [this](const PeerProcess& peer, PeerSockets sockets, Deadline deadline) {
                      return make(peer, std::move(sockets), deadline);
                    }}) {}

  [[nodiscard]] std::string_view name() const override { return "shm"; }
  [[nodiscard]] Caps caps() const override { return {.mapped = true, .device_memory = false}; }
  [[nodiscard]] Blob address() const override { return encode(address_); }
  [[nodiscard]] bool reaches(std::span<const std::byte> address) const override {
    const auto peer = decode_shm_address(address);
    return peer && on_one_host(address_, *peer);
  }
  Result<std::shared_ptr<Connection>> connect(const PeerProcess& peer,
                                              std::span<const std::byte> key,
                                              Deadline deadline) override {
    if (!reaches(peer.address))
      return make_error(Code::kUnsupported, "rank {} is not on this host, as shm sees it",
                        peer.rank);
    return peers_.connect(peer, key, deadline);
  }

 private:
  Result<std::shared_ptr<void>> greet(int socket) {
    TUTTI_ASSIGN(auto ring, OwnRing::create(yard_, ring_bytes_, ProcessLife::of_peer(socket)));
    TUTTI_TRY(send_introduction(socket, heap_->fd(),
                                {heap_->mapping().size(), ring->offset(), ring_bytes_}));
    return std::shared_ptr<void>(std::move(ring));
  }

  Result<std::shared_ptr<Connection>> make(const PeerProcess& peer, PeerSockets sockets,
                                           Deadline deadline) {
    PeerSocket& socket = sockets.front();
    TUTTI_ASSIGN(auto introduced, receive_introduction(socket.fd.get(), peer, deadline));
    const Introduction& said = introduced.said;
    TUTTI_ASSIGN(auto mapping, PeerMapping::map(std::move(introduced.heap), said.heap_bytes));
    const auto ring =
        mapping->bytes().subspan(said.ring_offset, sizeof(RingHeader) + said.ring_bytes);
    EngineOptions options;
    options.peer = peer.rank;
    options.link_name = "shm";
    options.mapped = mapping->bytes();
    TUTTI_ASSIGN(const ucred process, credentials(socket.fd.get()));
    options.local_pid = process.pid > 0 ? process.pid : -1;
    options.keep_alive = heap_;
    auto link = std::make_unique<ShmLink>(
        ShmLink::Parts{.socket = std::move(socket.fd),
                       .outgoing = std::static_pointer_cast<OwnRing>(std::move(socket.greeting)),
                       .mapping = std::move(mapping),
                       .incoming = ring});
    return std::shared_ptr<Connection>(
        std::make_shared<MessageEngine>(std::move(link), std::move(options)));
  }

  const std::shared_ptr<SharedHeap> heap_;
  const std::shared_ptr<RingYard> yard_;
  const ShmAddress address_;
  const std::size_t ring_bytes_;
  PeerListener peers_;
};

}  // namespace

Result<std::shared_ptr<Transport>> make_shm_transport(std::shared_ptr<SharedHeap> heap,
                                                      const ShmOptions& options) {
  if (!std::has_single_bit(options.ring_bytes) || options.ring_bytes > kLargestRing)
    return make_error(Code::kInvalidArgument, "a ring of {} bytes: it must be a power of two",
                      options.ring_bytes);
  TUTTI_ASSIGN(ShmAddress address, own_shm_address(options.host_id));
  TUTTI_ASSIGN(Fd listener, listen_at(address.socket_name));
  return std::shared_ptr<Transport>(std::make_shared<ShmTransport>(
      std::move(heap), std::move(address), std::move(listener), options));
}

}  // namespace tutti
