#include "transports/verbs/troubles.hpp"

#include <algorithm>

#include "src/base/result.hpp"

namespace tutti::verbs {
namespace {

/// Time until a queue pair gives up: each try waits 4.096 us * 2^timeout.
double patience_ms(const OwnPath& own) {
  constexpr double kUnitMs = 4.096e-3;
  return kUnitMs * static_cast<double>(std::uint64_t{1} << (own.timeout & 31)) * (own.retries + 1);
}

}  // namespace

std::string explain(const FailedPath& path) {
  std::string text = fmt::format("{} (queue pair {}, packets of {} bytes, traffic class {}",
                                 path.reason, path.queue_pair, path.mtu, path.own.traffic_class);
  if (!path.port_state.empty()) text += fmt::format(", this port is {}", path.port_state);
  text += ')';
  if (path.unanswered)
    text += fmt::format(
        ": {} tries within some {:.0f} ms had no answer, though the peer's process lives. Look at "
        "the network between the two ports: cables, the switch, its MTU, and on RoCE whether "
        "priority flow control covers this traffic class",
        path.own.retries + 1, patience_ms(path.own));
  return text;
}

std::optional<std::string> describe_mtus(const Rail& own, const Rail& peer) {
  if (own.mtu == peer.mtu) return std::nullopt;
  return fmt::format(
      "{} and the peer's {} have different MTUs: packets carry {} bytes, the smaller one. Give "
      "both "
      "interfaces the same MTU to use the larger",
      describe(own), describe(peer), std::min(own.mtu, peer.mtu));
}

int effective_traffic_class(const PortFacts& port, std::uint8_t asked) {
  return port.traffic_class >= 0 ? port.traffic_class : asked;
}

std::optional<std::string> describe_traffic_class(const DeviceFacts& device, const PortFacts& port,
                                                  std::uint8_t asked) {
  // Without a PCI device it is software, whose packets no NIC's flow control covers anyway.
  if (port.link != LinkLayer::kEthernet || device.pci.empty()) return std::nullopt;
  if (effective_traffic_class(port, asked) != 0) return std::nullopt;
  return fmt::format(
      "packets of {}:{} travel in traffic class 0, which most RoCE networks do not keep lossless: "
      "under load they get lost, and each loss costs a pause. Set TUTTI_IB_TC to the class that "
      "the "
      "switches cover by priority flow control (often 106)",
      device.name, port.number);
}

Status check_need(const DeviceFacts& device, const Need& need, std::int64_t lock_limit) {
  const std::size_t pairs = need.peers * need.queue_pairs_of_peer;
  if (pairs > device.most_queue_pairs)
    return make_error(
        Code::kUnavailable,
        "{} peers by RDMA need {} queue pairs on {} ({} each), which has {}: use fewer "
        "ports (TUTTI_IB_HCA), TUTTI_IB_QPS_PER_CONNECTION=1, or TUTTI_TRANSPORT=tcp",
        need.peers, pairs, device.name, need.queue_pairs_of_peer, device.most_queue_pairs);
  const std::size_t bytes = need.peers * need.bytes_of_peer;
  if (lock_limit >= 0 && bytes > static_cast<std::size_t>(lock_limit))
    return make_error(Code::kUnavailable,
                      "{} peers by RDMA need {} KiB of locked memory, and this process may lock {} "
                      "KiB: raise that with `ulimit -l unlimited`, in containers with --ulimit "
                      "memlock=-1",
                      need.peers, bytes / 1024, lock_limit / 1024);
  return ok_status();
}

}  // namespace tutti::verbs
