#include "transports/ucx/ucx_transport.hpp"

#include <algorithm>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/wire/message_engine.hpp"
#include "src/wire/peer_listener.hpp"
#include "transports/ucx/control_message.hpp"
#include "transports/ucx/ucx_link.hpp"

namespace tutti {
namespace {

using ucx::UcxAddress;

class UcxTransport final : public Transport {
 public:
  UcxTransport(Fd listener, SocketAddress control, std::uint32_t mbit_per_s,
               ucx::SharedContext context, const UcxOptions& options)
      : context_(std::move(context)),
        options_(options),
        caps_{.mbit_per_s = mbit_per_s},
        address_(ucx::encode(UcxAddress{control, context_->transports()})),
        peers_(std::move(listener), options.token, "ucx", hooks()) {}

  [[nodiscard]] std::string_view name() const override { return "ucx"; }
  [[nodiscard]] Caps caps() const override { return caps_; }
  [[nodiscard]] Blob address() const override { return address_; }
  [[nodiscard]] bool reaches(std::span<const std::byte> address) const override {
    const auto decoded = ucx::decode_address(address);
    if (!decoded) return false;
    const bool common = std::ranges::any_of(decoded->transports, [&](const std::string& name) {
      return name != "self" && std::ranges::count(context_->transports(), name) > 0;
    });
    if (!common)
      warn_once(fmt::format("UCX has {} here and {} at {}, so nothing in common",
                            fmt::join(context_->transports(), ", "),
                            fmt::join(decoded->transports, ", "), to_text(decoded->control)));
    return common;
  }
  Result<std::shared_ptr<Connection>> connect(const PeerProcess& peer,
                                              std::span<const std::byte> key,
                                              Deadline deadline) override {
    return peers_.connect(peer, key, deadline);
  }

 private:
  void warn_once(const std::string& what) const {
    const std::scoped_lock lock(mutex_);
    if (warned_.insert(what).second) log_warn("", "{}; another transport takes its place", what);
  }

  PeerListener::Hooks hooks() {
    return {.accept = [](int listener) { return accept_on(listener); },
            .dial = [](std::span<const std::byte> address, std::uint8_t,
                       Deadline deadline) -> Result<Fd> {
              TUTTI_ASSIGN(const UcxAddress where, ucx::decode_address(address));
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
    auto random = std::make_shared<std::random_device>();
    TUTTI_ASSIGN(
        auto link,
        ucx::UcxLink::create(
            {.context = context_,
             .control = std::move(socket),
             .peer = fmt::format("rank {}", peer.rank),
             .random = [random] { return std::uint64_t{(*random)()} << 32U | (*random)(); },
             .now = [] { return Clock::now(); }}));
    TUTTI_TRY(link->await_channel(deadline));
    EngineOptions options;
    options.peer = peer.rank;
    options.link_name = "ucx";
    return std::shared_ptr<Connection>(
        std::make_shared<MessageEngine>(std::move(link), std::move(options)));
  }

  const ucx::SharedContext context_;
  const UcxOptions options_;
  const Caps caps_;
  const Blob address_;
  PeerListener peers_;
  mutable std::mutex mutex_;
  mutable std::set<std::string> warned_;
};

}  // namespace

Result<std::shared_ptr<Transport>> make_ucx_transport(ucx::SharedContext context,
                                                      const UcxOptions& options) {
  log_info(Subsystem::kNet, "", "UCX {} offers {}", context->library().version(),
           fmt::join(context->transports(), ", "));
  TUTTI_ASSIGN(const auto all, list_interfaces());
  TUTTI_ASSIGN(const auto chosen, select_interfaces(all, options.interfaces));
  const NetInterface& interface = chosen.front();
  TUTTI_ASSIGN(Fd listener, listen_on(interface.address));
  TUTTI_ASSIGN(const SocketAddress bound, local_address(listener.get()));
  // How fast UCX's own networks are it does not tell.
  const bool is_fast = std::ranges::any_of(context->transports(), ucx::is_fast_network);
  return std::shared_ptr<Transport>(std::make_shared<UcxTransport>(
      std::move(listener), bound, is_fast ? 0 : mbit_per_s(interface.name), std::move(context),
      options));
}

}  // namespace tutti
