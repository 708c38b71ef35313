#include "tools/fabric/wiring.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "src/base/result.hpp"
#include "src/topo/model/aggregation.hpp"
#include "src/topo/model/bandwidths.hpp"
#include "src/topo/model/words.hpp"

namespace tutti::topo {
namespace {

constexpr double kWidest = 1e6;  // GB/s

const std::string* attribute(const std::vector<Attribute>& attributes, std::string_view key) {
  const auto found = std::ranges::find(attributes, key, &Attribute::key);
  return found == attributes.end() ? nullptr : &found->value;
}

/// A number greater than 0 that is all of `text`.
std::optional<double> number_in(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end || !(number > 0) || !std::isfinite(number))
    return std::nullopt;
  return number;
}

/// "2x2x1" as numbers; empty if it is no such text.
std::vector<std::uint32_t> lengths_in(std::string_view text) {
  std::vector<std::uint32_t> lengths;
  const char* at = text.data();
  const char* end = text.data() + text.size();
  while (lengths.size() < kMostFabricSizes) {
    std::uint32_t length = 0;
    const auto [stop, error] = std::from_chars(at, end, length);
    if (error != std::errc{} || length == 0 || length > kMostFabricHosts) return {};
    lengths.push_back(length);
    if (stop == end) return lengths;
    if (*stop != 'x') return {};
    at = stop + 1;
  }
  return {};
}

/// Of the switches of a fabric.
std::vector<Attribute> switch_attributes(const FabricShape& shape) {
  if (shape.aggregation == 0) return {};
  return {{std::string(kAggregationKey), text_of(Aggregation{.trees = shape.aggregation,
                                                             .outstanding = shape.operations,
                                                             .latency = shape.adding_latency,
                                                             .window = shape.window})}};
}

}  // namespace

Result<Wiring> Wiring::create(const Topology& unit, const FabricShape& shape) {
  const std::uint64_t nodes = std::uint64_t{shape.hosts} * unit.nodes().size();
  const std::uint64_t links = std::uint64_t{shape.hosts} * unit.links().size();
  if (nodes > Topology::kMostNodes / 2 || links > Topology::kMostLinks / 2)
    return make_error(Code::kInvalidArgument,
                      "{} hosts would have {} nodes and {} links: at most {} and {} are accepted",
                      shape.hosts, nodes, links, Topology::kMostNodes / 2,
                      Topology::kMostLinks / 2);
  Wiring wiring;
  wiring.hosts_ = shape.hosts;
  wiring.unit_nodes_ = static_cast<NodeId>(unit.nodes().size());
  TUTTI_TRY(wiring.find_chips(unit));
  if (wiring.chips_.empty()) TUTTI_TRY(wiring.find_nics(unit));
  if (shape.link > 0) wiring.cable_bandwidth_ = shape.link;
  wiring.cable_latency_ = shape.latency;
  wiring.of_switches_ = switch_attributes(shape);
  wiring.copy_units(unit);
  return wiring;
}

Status Wiring::find_nics(const Topology& unit) {
  for (NodeId id = 0; id < unit.nodes().size(); ++id) {
    if (unit.node(id).kind != NodeKind::kNic) continue;
    for (const LinkId link : unit.links_from(id))
      if (unit.link(link).kind == LinkKind::kNetwork)
        return make_error(Code::kInvalidArgument,
                          "{} has a cable already: a fabric joins hosts whose NICs are free",
                          full_name(unit, id));
    const std::string* speed = attribute(unit.node(id).attributes, "speed");
    const auto megabits = speed == nullptr ? std::nullopt : number_in(*speed);
    if (!megabits || network_bandwidth(*megabits) > kWidest)
      return make_error(Code::kInvalidArgument,
                        "{} does not say how fast it is: give it the attribute `speed`, in Mbit/s "
                        "and at most {:g}",
                        full_name(unit, id), kWidest * 8000);
    nics_.push_back({id, network_bandwidth(*megabits)});
    cable_bandwidth_ = std::max(cable_bandwidth_, nics_.back().bandwidth);
  }
  if (nics_.empty())
    return make_error(Code::kInvalidArgument,
                      "the host has no NIC that a fabric could join with others");
  block_ = {1};
  return ok_status();
}

Status Wiring::find_chips(const Topology& unit) {
  for (NodeId id = 0; id < unit.nodes().size(); ++id) {
    const std::string* text = attribute(unit.node(id).attributes, "ici");
    if (text == nullptr || unit.node(id).kind != NodeKind::kGpu) continue;
    const auto bandwidth = number_in(*text);
    if (!bandwidth || *bandwidth > kWidest)
      return make_error(Code::kInvalidArgument,
                        "{}: `ici` is {}, but must be GB/s of one link, at most {:g}",
                        full_name(unit, id), shown(*text), kWidest);
    chips_.push_back(id);
    cable_bandwidth_ = std::max(cable_bandwidth_, *bandwidth);
  }
  if (chips_.empty()) return ok_status();
  cable_kind_ = LinkKind::kNvlink;
  block_ = {static_cast<std::uint32_t>(chips_.size())};
  const std::string* block = attribute(unit.hosts()[0].attributes, "block");
  if (block == nullptr) return ok_status();
  block_ = lengths_in(*block);
  std::uint64_t places = block_.empty() ? 0 : 1;
  for (const std::uint32_t length : block_)
    places = std::min<std::uint64_t>(places * length, Topology::kMostNodes);
  if (places != chips_.size())
    return make_error(Code::kInvalidArgument,
                      "`block` is {}, but must be lengths such as 2x2 whose product is the {} GPUs "
                      "of a host",
                      shown(*block), chips_.size());
  return ok_status();
}

void Wiring::copy_units(const Topology& unit) {
  const auto unit_hosts = static_cast<HostId>(unit.hosts().size());
  parts_.hosts.reserve(std::size_t{hosts_} * unit_hosts);
  parts_.nodes.reserve(std::size_t{hosts_} * unit.nodes().size());
  parts_.links.reserve(std::size_t{hosts_} * unit.links().size());
  for (std::uint32_t copy = 0; copy < hosts_; ++copy) {
    const std::string name = fmt::format("h{}", copy);
    const NodeId first = copy * unit_nodes_;
    for (const Host& host : unit.hosts())
      parts_.hosts.push_back(
          {unit_hosts == 1 ? name : fmt::format("{}.{}", name, host.name), host.attributes});
    for (Node node : unit.nodes()) {
      if (node.host == kNoHost)
        node.name = fmt::format("{}.{}", name, node.name);
      else
        node.host += copy * unit_hosts;
      parts_.nodes.push_back(std::move(node));
    }
    for (Link link : unit.links()) {
      link.from += first;
      link.to += first;
      parts_.links.push_back(link);
    }
  }
}

FabricPort Wiring::port(std::uint32_t host, std::uint32_t rail) const {
  return {host * unit_nodes_ + nics_[rail].nic, nics_[rail].bandwidth};
}

std::vector<FabricPort> Wiring::ports() const {
  std::vector<FabricPort> ports;
  for (std::uint32_t host = 0; host < hosts_; ++host)
    for (std::uint32_t rail = 0; rail < rails(); ++rail) ports.push_back(port(host, rail));
  return ports;
}

NodeId Wiring::add_switch(std::string name) {
  parts_.nodes.push_back({NodeKind::kSwitch, kNoHost, std::move(name), of_switches_});
  return static_cast<NodeId>(parts_.nodes.size() - 1);
}

void Wiring::plug(const FabricPort& port, NodeId into, double share) {
  const double bandwidth = port.bandwidth * share;
  parts_.links.push_back({port.nic, into, LinkKind::kNetwork, bandwidth, cable_latency_});
  parts_.links.push_back({into, port.nic, LinkKind::kNetwork, bandwidth, cable_latency_});
}

void Wiring::cable(NodeId a, NodeId b, double share) {
  const double bandwidth = cable_bandwidth_ * share;
  parts_.links.push_back({a, b, cable_kind_, bandwidth, cable_latency_});
  parts_.links.push_back({b, a, cable_kind_, bandwidth, cable_latency_});
}

Status Wiring::check_cables(std::uint64_t more) const {
  constexpr std::uint64_t kMost = Topology::kMostLinks / 2;
  const std::uint64_t all = parts_.links.size() / 2 + more;
  if (all <= kMost) return ok_status();
  return make_error(Code::kInvalidArgument,
                    "hosts and fabric would have {} cables and links: at most {}", all, kMost);
}

std::uint64_t Wiring::places() const {
  return std::uint64_t{hosts_} * std::max<std::size_t>(chips_.size(), 1);
}

NodeId Wiring::add_router(std::uint64_t place, std::string name, std::uint32_t cables) {
  const bool of_chip = !chips_.empty();
  const NodeKind kind = of_chip ? NodeKind::kNvswitch : NodeKind::kSwitch;
  parts_.nodes.push_back({kind, kNoHost, std::move(name), {}});
  const auto router = static_cast<NodeId>(parts_.nodes.size() - 1);
  // The router is a part of its place: the way to it takes no time, and from a chip it is as wide
  // as all cables together.
  const auto join = [&](NodeId node, double bandwidth) {
    parts_.links.push_back({node, router, cable_kind_, bandwidth, 0});
    parts_.links.push_back({router, node, cable_kind_, bandwidth, 0});
  };
  if (of_chip) {
    const auto host = static_cast<std::uint32_t>(place / chips_.size());
    join(host * unit_nodes_ + chips_[place % chips_.size()], cable_bandwidth_ * cables);
    return router;
  }
  for (std::uint32_t rail = 0; rail < rails(); ++rail) {
    const FabricPort nic = port(static_cast<std::uint32_t>(place), rail);
    join(nic.nic, nic.bandwidth);
  }
  return router;
}

}  // namespace tutti::topo
