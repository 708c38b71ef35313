#include "transports/nccl_net/nccl_net_transport.hpp"

#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "src/base/log.hpp"
#include "src/base/printable.hpp"
#include "src/base/result.hpp"
#include "src/wire/message_engine.hpp"
#include "src/wire/peer_listener.hpp"
#include "transports/nccl_net/control_message.hpp"
#include "transports/nccl_net/nccl_net_link.hpp"

namespace tutti {
namespace {

using nccl_net::NcclNetAddress;
using SharedNetPlugin = std::shared_ptr<const plugin::NetPlugin>;

std::uint64_t random_number() {
  std::random_device random;
  return std::uint64_t{random()} << 32U | random();
}

class NcclNetTransport final : public Transport {
 public:
  NcclNetTransport(Fd listener, SocketAddress control, SharedNetPlugin plugin, int device,
                   const NcclNetOptions& options)
      : plugin_(std::move(plugin)),
        device_(device),
        options_(options),
        caps_{.mbit_per_s = static_cast<std::uint32_t>(properties().mbit_per_s)},
        address_(nccl_net::encode(NcclNetAddress{control, plugin_->name()})),
        peers_(std::move(listener), options.token, "nccl_net", hooks()) {}

  [[nodiscard]] std::string_view name() const override { return "nccl_net"; }
  [[nodiscard]] Caps caps() const override { return caps_; }
  [[nodiscard]] Blob address() const override { return address_; }
  [[nodiscard]] bool reaches(std::span<const std::byte> address) const override {
    const auto decoded = nccl_net::decode_address(address);
    if (!decoded) return false;
    if (decoded->plugin == plugin_->name()) return true;
    warn_once(fmt::format("the network plugin is {} here and {} at {}", plugin_->name(),
                          without_controls(decoded->plugin), to_text(decoded->control)));
    return false;
  }
  /// Plugins state few comms where they mean channels: that of SHARP one. So only connect() knows.
  Status prepare_for(std::size_t connections) override {
    const auto most = static_cast<std::size_t>(properties().most_comms);
    if (connections > most / 2)
      log_info(Subsystem::kNet, "", "{} connections need {} comms of {}; its device {} states {}",
               connections, 2 * connections, plugin_->who(), properties().name, most);
    return ok_status();
  }
  Result<std::shared_ptr<Connection>> connect(const PeerProcess& peer,
                                              std::span<const std::byte> key,
                                              Deadline deadline) override {
    return peers_.connect(peer, key, deadline);
  }

 private:
  [[nodiscard]] const plugin::DeviceProperties& properties() const {
    return plugin_->devices()[static_cast<std::size_t>(device_)];
  }
  void warn_once(const std::string& what) const {
    const std::scoped_lock lock(mutex_);
    if (warned_.insert(what).second) log_warn("", "{}; another transport takes its place", what);
  }

  PeerListener::Hooks hooks() {
    return {.accept = [](int listener) { return accept_on(listener); },
            .dial = [](std::span<const std::byte> address, std::uint8_t,
                       Deadline deadline) -> Result<Fd> {
              TUTTI_ASSIGN(const NcclNetAddress where, nccl_net::decode_address(address));
              return connect_once(where.control, deadline);
            },
            .greet = [](int) -> Result<std::shared_ptr<void>> { return std::shared_ptr<void>(); },
            .make =
                [this](const PeerProcess& peer, PeerSockets sockets, Deadline deadline) {
                  return make(peer, std::move(sockets.front().fd), deadline);
                }};
  }

  Result<std::shared_ptr<Connection>> make(const PeerProcess& peer, Fd socket, Deadline deadline) {
    tune_stream(socket.get(), options_.liveness);
    TUTTI_ASSIGN(auto link,
                 nccl_net::NcclNetLink::connect({.plugin = plugin_,
                                                 .device = device_,
                                                 .peer = fmt::format("rank {}", peer.rank),
                                                 .graveyard = graveyard_,
                                                 .cookie = random_number()},
                                                std::move(socket), deadline));
    EngineOptions options;
    options.peer = peer.rank;
    options.link_name = "nccl_net";
    return std::shared_ptr<Connection>(
        std::make_shared<MessageEngine>(std::move(link), std::move(options)));
  }

  const SharedNetPlugin plugin_;
  const int device_;
  const NcclNetOptions options_;
  const Caps caps_;
  const Blob address_;
  const std::shared_ptr<nccl_net::Graveyard> graveyard_ = std::make_shared<nccl_net::Graveyard>();
  PeerListener peers_;
  mutable std::mutex mutex_;
  mutable std::set<std::string> warned_;
};

}  // namespace

Result<std::shared_ptr<Transport>> make_nccl_net_transport(SharedNetPlugin plugin,
                                                           const NcclNetOptions& options) {
  TUTTI_ASSIGN(const auto fastest, plugin::fastest_devices(plugin->devices(), plugin->who()));
  const int device = fastest.front();
  log_info(Subsystem::kNet, "", "{} has {} devices; {} is used", plugin->who(),
           plugin->devices().size(), plugin->devices()[static_cast<std::size_t>(device)].name);
  TUTTI_ASSIGN(const auto all, list_interfaces());
  TUTTI_ASSIGN(const auto chosen, select_interfaces(all, options.interfaces));
  TUTTI_ASSIGN(Fd listener, listen_on(chosen.front().address));
  TUTTI_ASSIGN(const SocketAddress bound, local_address(listener.get()));
  return std::shared_ptr<Transport>(std::make_shared<NcclNetTransport>(
      std::move(listener), bound, std::move(plugin), device, options));
}

}  // namespace tutti
