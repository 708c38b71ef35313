#include "transports/shm/shm_transport.hpp"

#include <array>
#include <bit>

#include "src/base/result.hpp"
#include "src/wire/local_address.hpp"
#include "src/wire/local_socket.hpp"
#include "src/wire/message_engine.hpp"
#include "src/wire/peer_listener.hpp"
#include "transports/shm/introduction.hpp"
#include "transports/shm/shm_link.hpp"

namespace tutti {
namespace {

struct Introduced {
  Introduction said;
  Fd heap;
};

Result<Introduced> receive_introduction(int socket, const PeerProcess& peer, Deadline deadline) {
  std::array<std::byte, kIntroductionBytes> bytes;
  TUTTI_ASSIGN(ReceivedWithFd got, receive_with_fd(socket, bytes, peer.rank,
                                                   "the descriptor of its shared heap", deadline));
  TUTTI_ASSIGN(const Introduction said, decode_introduction(std::span(bytes).first(got.bytes)));
  return Introduced{said, std::move(got.fd)};
}

Result<Fd> dial(std::span<const std::byte> address, std::uint8_t, Deadline) {
  TUTTI_ASSIGN(const LocalAddress where, decode_local_address(address));
  return dial_local(where.socket_name);
}

class ShmTransport final : public Transport {
 public:
  ShmTransport(std::shared_ptr<SharedHeap> heap, LocalAddress address, Fd listener,
               const ShmOptions& options)
      : heap_(std::move(heap)),
        yard_(std::make_shared<RingYard>(heap_)),
        address_(std::move(address)),
        ring_bytes_(options.ring_bytes),
        peers_(std::move(listener), options.token, "shm",
               {.accept = accept_local,
                .dial = dial,
                .greet = [this](int socket) { return greet(socket); },
                .make =
                    [this](const PeerProcess& peer, PeerSockets sockets, Deadline deadline) {
                      return make(peer, std::move(sockets), deadline);
                    }}) {}

  [[nodiscard]] std::string_view name() const override { return "shm"; }
  [[nodiscard]] Caps caps() const override { return {.mapped = true, .device_memory = false}; }
  [[nodiscard]] Blob address() const override { return encode(address_); }
  [[nodiscard]] bool reaches(std::span<const std::byte> address) const override {
    const auto peer = decode_local_address(address);
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
    const Introduction said{heap_->mapping().size(), ring->offset(), ring_bytes_};
    TUTTI_TRY(send_with_fd(socket, encode(said), heap_->fd()));
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
  const LocalAddress address_;
  const std::size_t ring_bytes_;
  PeerListener peers_;
};

}  // namespace

Result<std::shared_ptr<Transport>> make_shm_transport(std::shared_ptr<SharedHeap> heap,
                                                      const ShmOptions& options) {
  if (!std::has_single_bit(options.ring_bytes) || options.ring_bytes > kLargestRing)
    return make_error(Code::kInvalidArgument, "a ring of {} bytes: it must be a power of two",
                      options.ring_bytes);
  TUTTI_ASSIGN(LocalAddress address, own_local_address(options.host_id));
  TUTTI_ASSIGN(Fd listener, listen_local(address.socket_name));
  return std::shared_ptr<Transport>(std::make_shared<ShmTransport>(
      std::move(heap), std::move(address), std::move(listener), options));
}

}  // namespace tutti
