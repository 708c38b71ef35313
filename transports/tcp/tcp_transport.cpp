#include "transports/tcp/tcp_transport.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/ranges.h>

#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/wire/message_engine.hpp"
#include "src/wire/peer_listener.hpp"
#include "transports/tcp/tcp_link.hpp"

namespace tutti {
namespace {

constexpr std::size_t kLongestAddress = 1024;

// An address travels as its text: "10.0.0.1:29500", or several with commas between them.
Blob encode_addresses(std::span<const SocketAddress> addresses) {
  std::string text;
  for (const SocketAddress& address : addresses)
    text += (text.empty() ? "" : ",") + to_text(address);
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

Result<std::vector<SocketAddress>> decode_addresses(std::span<const std::byte> blob) {
  if (blob.size() > kLongestAddress)
    return make_error(Code::kInvalidArgument, "a tcp address of {} bytes", blob.size());
  std::string_view rest(reinterpret_cast<const char*>(blob.data()), blob.size());
  std::vector<SocketAddress> addresses;
  do {
    const std::size_t end = std::min(rest.find(','), rest.size());
    TUTTI_ASSIGN(const SocketAddress address, parse_address(rest.substr(0, end)));
    if (address.port == 0)
      return make_error(Code::kInvalidArgument, "a tcp address without a port");
    if (addresses.size() == kMaxSockets)
      return make_error(Code::kInvalidArgument, "more than {} tcp addresses", kMaxSockets);
    addresses.push_back(address);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  } while (!rest.empty());
  return addresses;
}

/// Connects to the address whose turn it is. If that cannot be reached, because its subnet is not
/// this host's or its link is down, the next one takes its place.
Result<Fd> connect_to_one(std::span<const SocketAddress> all, std::size_t part, Deadline deadline) {
  std::optional<Error> why;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const SocketAddress& address = all[(part + i) % all.size()];
    const auto left = static_cast<Nanos::rep>(all.size() - i);
    auto fd = connect_once(address, deadline.within(deadline.left() / left));
    if (fd && why)
      log_warn("", "data goes to {} instead, so over fewer interfaces than the peer has: {}",
               to_text(address), why->what);
    if (fd) return fd;
    if (!why) why = std::move(fd).error();
  }
  return *std::move(why);
}

class TcpTransport final : public Transport {
 public:
  TcpTransport(std::vector<Fd> listeners, std::span<const SocketAddress> addresses,
               std::uint32_t mbit_per_s, const TcpOptions& options)
      : caps_{.mbit_per_s = mbit_per_s},
        address_(encode_addresses(addresses)),
        peers_(std::move(listeners), options.token, "tcp", hooks(options.liveness),
               std::max(options.sockets, addresses.size())) {}

  [[nodiscard]] std::string_view name() const override { return "tcp"; }
  [[nodiscard]] Caps caps() const override { return caps_; }
  [[nodiscard]] Blob address() const override { return address_; }
  [[nodiscard]] bool reaches(std::span<const std::byte> address) const override {
    return decode_addresses(address).ok();
  }
  Result<std::shared_ptr<Connection>> connect(const PeerProcess& peer,
                                              std::span<const std::byte> key,
                                              Deadline deadline) override {
    return peers_.connect(peer, key, deadline);
  }

 private:
  static PeerListener::Hooks hooks(Nanos liveness) {
    return {.accept = [](int listener) { return accept_on(listener); },
            // The system's routes say by which interface each address is reached.
            .dial = [](std::span<const std::byte> address, std::uint8_t part,
                       Deadline deadline) -> Result<Fd> {
              TUTTI_ASSIGN(const auto all, decode_addresses(address));
              return connect_to_one(all, part, deadline);
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
  std::vector<Fd> listeners;
  std::vector<SocketAddress> addresses;
  std::vector<std::string> names;
  std::uint32_t speed = 0;
  for (const NetInterface& interface : chosen) {
    if (addresses.size() == std::clamp<std::size_t>(options.most_interfaces, 1, kMaxSockets)) break;
    // An interface may have several addresses.
    if (std::ranges::find(names, interface.name) != names.end()) continue;
    TUTTI_ASSIGN(Fd listener, listen_on(interface.address));
    TUTTI_ASSIGN(const SocketAddress bound, local_address(listener.get()));
    listeners.push_back(std::move(listener));
    addresses.push_back(bound);
    names.push_back(interface.name);
    speed += mbit_per_s(interface.name);
  }
  log_info(Subsystem::kNet, "", "tcp over {}", fmt::join(names, ", "));
  return std::shared_ptr<Transport>(
      std::make_shared<TcpTransport>(std::move(listeners), addresses, speed, options));
}

}  // namespace tutti
