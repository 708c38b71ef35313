#include "transports/verbs/verbs_transport.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "src/base/bytes.hpp"
#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/wire/message_engine.hpp"
#include "src/wire/peer_listener.hpp"
#include "transports/verbs/control_message.hpp"
#include "transports/verbs/rail_devices.hpp"
#include "transports/verbs/troubles.hpp"
#include "transports/verbs/verbs_link.hpp"

namespace tutti {
namespace {

using verbs::ControlMessage;
using verbs::Offer;
using verbs::Rail;
using verbs::RailDevices;

constexpr std::size_t kLongestSocketAddress = 128;

/// Where a process listens, and its rails.
struct VerbsAddress {
  SocketAddress control;
  std::vector<Rail> rails;
};

Blob encode_address(const SocketAddress& control, const std::vector<Rail>& rails) {
  Offer offer{.ring_bytes = verbs::kLeastRing};
  for (const Rail& rail : rails)
    if (offer.rails.size() < verbs::kMostRails) offer.rails.push_back({rail, 0});
  Blob blob;
  ByteWriter(blob).sized(as_bytes(to_text(control))).bytes(encode(ControlMessage(offer)));
  return blob;
}

Result<VerbsAddress> decode_address(std::span<const std::byte> blob) {
  ByteReader in(blob);
  const std::string text = in.text(kLongestSocketAddress);
  const auto rest = in.bytes(in.left());
  if (!in.ok())
    return make_error(Code::kInvalidArgument, "an RDMA address of {} bytes", blob.size());
  TUTTI_ASSIGN(const SocketAddress control, parse_address(text));
  if (control.port == 0)
    return make_error(Code::kInvalidArgument, "an RDMA address without a port");
  TUTTI_ASSIGN(const auto decoded, verbs::decode_control(rest));
  const auto* const offer = decoded ? std::get_if<Offer>(&decoded->message) : nullptr;
  if (offer == nullptr || decoded->bytes != rest.size())
    return make_error(Code::kInvalidArgument, "an RDMA address without its rails");
  VerbsAddress address{control, {}};
  for (const auto& offered : offer->rails) address.rails.push_back(offered.rail);
  return address;
}

void warn_of_traffic_class(const RailDevices& devices, const VerbsOptions& options) {
  for (std::size_t rail = 0; rail < devices.rails().size(); ++rail) {
    const auto& facts = devices.device(rail).facts();
    const auto port =
        std::ranges::find(facts.ports, devices.rails()[rail].port, &verbs::PortFacts::number);
    if (port == facts.ports.end()) continue;
    if (const auto why = verbs::describe_traffic_class(facts, *port, options.path.traffic_class))
      return log_warn("", "{}", *why);  // one is enough
  }
}

class VerbsTransport final : public Transport {
 public:
  VerbsTransport(Fd listener, SocketAddress control, std::shared_ptr<RailDevices> devices,
                 const VerbsOptions& options)
      : devices_(std::move(devices)),
        options_(options),
        control_(control),
        peers_(std::move(listener), options.token, "verbs", hooks()) {}

  [[nodiscard]] std::string_view name() const override { return "verbs"; }
  [[nodiscard]] Caps caps() const override {
    std::uint32_t mbit_per_s = 0;
    for (const Rail& rail : devices_->rails()) mbit_per_s += rail.mbit_per_s;
    return {.one_sided = true, .device_memory = true, .mbit_per_s = mbit_per_s};
  }
  [[nodiscard]] Blob address() const override {
    std::call_once(settled_, [this] { settle(); });
    return address_;
  }
  [[nodiscard]] bool reaches(std::span<const std::byte> address) const override {
    const auto decoded = decode_address(address);
    if (!decoded) return false;
    const auto pairs = verbs::match_rails(devices_->rails(), decoded->rails);
    if (!pairs) warn_once(pairs.error().what);
    return pairs.ok();
  }
  Result<std::shared_ptr<const void>> register_memory(std::span<std::byte> memory) override {
    return devices_->memory().add(memory);
  }
  Result<DeviceRegistration> register_device_memory(const DeviceBuffer& buffer) override {
    return devices_->memory().add(buffer);
  }
  Status prepare_for(std::size_t connections) override {
    ring_bytes_.store(verbs::ring_bytes_for(connections), std::memory_order_relaxed);
    const auto& rails = devices_->rails();
    for (std::size_t rail = 0; rail < rails.size(); ++rail) {
      const verbs::Device& device = devices_->device(rail);
      const verbs::Need need{
          .peers = connections,
          .queue_pairs_of_peer = static_cast<std::size_t>(
                                     std::ranges::count(rails, rails[rail].device, &Rail::device)) *
                                 verbs::pairs_of_each_rail(rails, options_.pairs_of_each_rail),
          .bytes_of_peer = 2 * verbs::ring_bytes_for(connections)};
      TUTTI_TRY(verbs::check_need(device.facts(), need,
                                  verbs::is_above_lock_limit() ? -1 : verbs::lock_limit()));
    }
    return ok_status();
  }
  Result<std::shared_ptr<Connection>> connect(const PeerProcess& peer,
                                              std::span<const std::byte> key,
                                              Deadline deadline) override {
    std::call_once(settled_, [this] { settle(); });
    return peers_.connect(peer, key, deadline);
  }

 private:
  /// What is near depends on the GPU of the first communicator, which is not known before.
  void settle() const {
    const verbs::NearPorts near =
        options_.near ? options_.near(devices_->rails()) : verbs::NearPorts();
    devices_->mark_far(near);
    log_info(Subsystem::kNet, "", "RDMA ports: {}", describe_choice(devices_->rails(), near));
    address_ = encode_address(control_, devices_->rails());
  }

  void warn_once(const std::string& what) const {
    const std::scoped_lock lock(mutex_);
    if (warned_.insert(what).second) log_warn("", "{}; another transport takes its place", what);
  }

  PeerListener::Hooks hooks() {
    return {.accept = [](int listener) { return accept_on(listener); },
            .dial = [](std::span<const std::byte> address, std::uint8_t,
                       Deadline deadline) -> Result<Fd> {
              TUTTI_ASSIGN(const VerbsAddress where, decode_address(address));
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
    const auto attention = std::make_shared<verbs::Attention>();
    const int control = socket.get();
    TUTTI_ASSIGN(auto link, verbs::VerbsLink::create(
                                {.devices = devices_,
                                 .control = std::move(socket),
                                 .leads = options_.token < peer.token,
                                 .peer = fmt::format("rank {}", peer.rank),
                                 .ring_bytes = ring_bytes_.load(std::memory_order_relaxed),
                                 .pairs_of_each_rail = options_.pairs_of_each_rail,
                                 .path = options_.path,
                                 .attention = attention,
                                 .random = [random] { return (*random)(); },
                                 .now = [] { return Clock::now(); }}));
    // Each rank connects to others in ascending order, so that of those that wait for each other
    // here two can always go on.
    TUTTI_TRY(link->await_paths(deadline));
    EngineOptions options;
    options.peer = peer.rank;
    options.link_name = "verbs";
    options.carries_device_memory = true;
    std::shared_ptr<Connection> connection =
        std::make_shared<MessageEngine>(std::move(link), std::move(options));
    if (options_.service != nullptr)
      verbs::attend(*options_.service, connection, control, attention);
    return connection;
  }

  const std::shared_ptr<RailDevices> devices_;
  const VerbsOptions options_;
  const SocketAddress control_;
  mutable std::once_flag settled_;
  mutable Blob address_;
  std::atomic<std::size_t> ring_bytes_ = verbs::ring_bytes_for(1);
  PeerListener peers_;
  mutable std::mutex mutex_;
  mutable std::set<std::string> warned_;
};

}  // namespace

Result<std::shared_ptr<Transport>> make_verbs_transport(const verbs::SharedLibrary& library,
                                                        const VerbsOptions& options) {
  TUTTI_ASSIGN(auto devices, RailDevices::open(library, options.ports));
  for (const std::string& why : devices->left_out()) log_info(Subsystem::kNet, "", "{}", why);
  warn_of_traffic_class(*devices, options);
  TUTTI_ASSIGN(const auto all, list_interfaces());
  TUTTI_ASSIGN(const auto chosen, select_interfaces(all, options.interfaces));
  TUTTI_ASSIGN(Fd listener, listen_on(chosen.front().address));
  TUTTI_ASSIGN(const SocketAddress bound, local_address(listener.get()));
  return std::shared_ptr<Transport>(
      std::make_shared<VerbsTransport>(std::move(listener), bound, std::move(devices), options));
}

}  // namespace tutti
