#include "transports/tcp/tcp_transport.hpp"

#include <memory>
#include <string>
#include <vector>

#include "src/base/result.hpp"
#include "src/wire/message_engine.hpp"
#include "src/wire/peer_listener.hpp"
#include "transports/tcp/tcp_link.hpp"

namespace tutti {
namespace {

constexpr std::size_t kLongestAddress = 128;

// An address travels as its text: "10.0.0.1:29500".
Blob encode_address(const SocketAddress& address) {
  const std::string text = to_text(address);
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

Result<SocketAddress> decode_address(std::span<const std::byte> blob) {
  if (blob.size() > kLongestAddress)
    return make_error(Code::kInvalidArgument, "a tcp address of {} bytes", blob.size());
  TUTTI_ASSIGN(const SocketAddress address,
               parse_address({reinterpret_cast<const char*>(blob.data()), blob.size()}));
  if (address.port == 0) return make_error(Code::kInvalidArgument, "a tcp address without a port");
  return address;
}

class TcpTransport final : public Transport {
 public:
  TcpTransport(Fd listener, SocketAddress address, std::uint32_t mbit_per_s,
               const TcpOptions& options)
      : caps_{.mbit_per_s = mbit_per_s},
        address_(encode_address(address)),
        peers_(std::move(listener), options.token, "tcp", hooks(options.liveness),
               options.sockets) {}

  [[nodiscard]] std::string_view name() const override { return "tcp"; }
  [[nodiscard]] Caps caps() const override { return caps_; }
  [[nodiscard]] Blob address() const override { return address_; }
  [[nodiscard]] bool reaches(std::span<const std::byte> address) const override {
    return decode_address(address).ok();
  }
  Result<std::shared_ptr<Connection>> connect(const PeerProcess& peer,
                                              std::span<const std::byte> key,
                                              Deadline deadline) override {
    return peers_.connect(peer, key, deadline);
  }

 private:
  static PeerListener::Hooks hooks(Nanos liveness) {
    return {.accept = [](int listener) { return accept_on(listener); },
            .dial = [](std::span<const std::byte> address, Deadline deadline) -> Result<Fd> {
              TUTTI_ASSIGN(const SocketAddress where, decode_address(address));
              return connect_once(where, deadline);
            },
            .greet = [](int) -> Result<std::shared_ptr<void>> { return std::shared_ptr<void>(); },
            .make = [liveness](const PeerProcess& peer, PeerSockets sockets,
                               Deadline) -> Result<std::shared_ptr<Connection>> {
              EngineOptions options;
              options.peer = peer.rank;
              options.link_name = "tcp";
              const auto load = sockets.size() == 1 ? TcpLink::Load::kAll : TcpLink::Load::kShared;
              std::vector<std::unique_ptr<ByteLink>> links;
              for (PeerSocket& socket : sockets)
                links.push_back(std::make_unique<TcpLink>(std::move(socket.fd), liveness, load));
              return std::shared_ptr<Connection>(
                  std::make_shared<MessageEngine>(std::move(links), std::move(options)));
            }};
  }

  const Caps caps_;
  const Blob address_;
  PeerListener peers_;
};

}  // namespace

Result<std::shared_ptr<Transport>> make_tcp_transport(const TcpOptions& options) {
  TUTTI_ASSIGN(const auto all, list_interfaces());
  TUTTI_ASSIGN(const auto chosen, select_interfaces(all, options.interfaces));
  const NetInterface& interface = chosen.front();
  TUTTI_ASSIGN(Fd listener, listen_on(interface.address));
  TUTTI_ASSIGN(const SocketAddress bound, local_address(listener.get()));
  return std::shared_ptr<Transport>(std::make_shared<TcpTransport>(
      std::move(listener), bound, mbit_per_s(interface.name), options));
}

}  // namespace tutti
