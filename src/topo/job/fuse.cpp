#include "src/topo/job/fuse.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "src/base/result.hpp"
#include "src/topo/model/assumptions.hpp"
#include "src/topo/model/bandwidths.hpp"
#include "src/topo/model/draft.hpp"
#include "src/topo/model/wiring_hash.hpp"
#include "src/topo/model/words.hpp"

namespace tutti::topo {
namespace {

constexpr std::string_view kAffinity = "affinity", kSpeed = "speed", kHostHash = "host_hash",
                           kPhysicalFunction = "physical_function", kBusId = "busid";

const std::string* find(const std::vector<Attribute>& attributes, std::string_view key) {
  const auto found = std::ranges::lower_bound(attributes, key, {}, &Attribute::key);
  return found != attributes.end() && found->key == key ? &found->value : nullptr;
}

/// Leaves attributes as they are where no more are accepted.
void put(std::vector<Attribute>& attributes, std::string_view key, std::string value) {
  const auto at = std::ranges::lower_bound(attributes, key, {}, &Attribute::key);
  if (at != attributes.end() && at->key == key)
    at->value = std::move(value);
  else if (attributes.size() < Topology::kMostAttributes)
    attributes.insert(at, Attribute{std::string(key), std::move(value)});
}

/// Names that are given once; where one is taken, "#2", "#3" and so on stand behind it.
class Names {
 public:
  std::string unique(const std::string& wanted, std::string_view instead) {
    constexpr std::size_t kLongest = 240;  // leaves room for the number
    if (taken_.insert(wanted).second) return wanted;
    const std::string base(wanted.size() <= kLongest ? wanted : instead);
    for (std::size_t& number = numbers_[base];;) {
      std::string name = fmt::format("{}#{}", base, ++number + 1);
      if (taken_.insert(name).second) return name;
    }
  }

 private:
  std::set<std::string, std::less<>> taken_;
  std::map<std::string, std::size_t, std::less<>> numbers_;  // used so far
};

class Fuser {
 public:
  explicit Fuser(Assumptions& assumptions) : assumptions_(assumptions) {}

  Result<Topology> run(std::span<const Noted> hosts) && {
    for (const Noted& host : hosts) add(host);
    join();
    return Topology::create(std::move(parts_));
  }

 private:
  /// Towards the network.
  struct WayOut {
    NodeId from = 0;
    Pace pace;
  };

  void add(const Noted& host) {
    const auto id = static_cast<HostId>(parts_.hosts.size());
    const auto first = static_cast<NodeId>(parts_.nodes.size());
    const Topology& its = host.topology;
    parts_.hosts.push_back(its.hosts().front());
    std::string& name = parts_.hosts.back().name;
    name = names_.unique(name, "host");
    for (const std::string& sentence : host.assumptions) assumptions_.add_of(name, sentence);
    add_nodes(its, id);
    for (Link link : its.links()) {
      link.from += first;
      link.to += first;
      parts_.links.push_back(link);
    }
    if (add_ways_out(its, first) == 0) assume_nic(id, first);
  }

  /// Nodes without a host are part of the one that tells of them.
  void add_nodes(const Topology& its, HostId host) {
    Names names;
    for (const NodeId id : its.nodes_of(0)) names.unique(its.node(id).name, "");
    for (Node node : its.nodes()) {
      if (node.host == kNoHost) node.name = names.unique(node.name, name_of(node.kind));
      node.host = host;
      if (node.kind == NodeKind::kCpu)
        put(node.attributes, kHostHash, fmt::format("{:#x}", host + 1));
      parts_.nodes.push_back(std::move(node));
    }
  }

  /// How many NICs there are.
  std::size_t add_ways_out(const Topology& its, NodeId first) {
    std::map<NodeId, double> outsides;  // and how fast the NICs on each are together
    std::size_t nics = 0;
    for (NodeId id = 0; id < its.nodes().size(); ++id) {
      const Node& nic = its.node(id);
      if (nic.kind != NodeKind::kNic) continue;
      ++nics;
      bool has_outside = false;
      for (const LinkId out : its.links_from(id)) {
        const Link& link = its.link(out);
        if (link.kind != LinkKind::kNetwork || its.node(link.to).kind != NodeKind::kSwitch)
          continue;
        has_outside = true;
        double& bandwidth = outsides[link.to];
        // A virtual function uses the port of its physical one.
        const bool shares = find(nic.attributes, kPhysicalFunction) != nullptr;
        bandwidth = shares ? std::max(bandwidth, link.bandwidth) : bandwidth + link.bandwidth;
      }
      if (!has_outside) add_nic(nic, first + id);
    }
    // A NIC's own link has the latency of its cable.
    for (const auto& [outside, bandwidth] : outsides)
      ways_out_.push_back(
          {first + outside, {std::min(bandwidth, std::numeric_limits<double>::max()), 0}});
    return nics;
  }

  /// One that has no outside.
  void add_nic(const Node& nic, NodeId id) {
    constexpr double kFastest = 1e8;  // Mbit/s: faster than any port is no speed
    double mbit_per_s = 0;
    if (const std::string* speed = find(nic.attributes, kSpeed))
      std::from_chars(speed->data(), speed->data() + speed->size(), mbit_per_s);
    if (!(mbit_per_s > 0 && mbit_per_s < kFastest)) {
      mbit_per_s = 0;
      assumptions_.add_of(fmt::format("{}/{}", parts_.hosts.back().name, nic.name),
                          fmt::format("no speed of its network is told: {} Gbit/s is assumed",
                                      kAssumedNetworkBandwidth * 8));
    }
    ways_out_.push_back({id, {network_bandwidth(mbit_per_s), assumed_latency(LinkKind::kNetwork)}});
  }

  void assume_nic(HostId host, NodeId first) {
    NodeId at = first;
    const auto is = [&](NodeKind kind) {
      const auto found = std::find_if(parts_.nodes.begin() + first, parts_.nodes.end(),
                                      [kind](const Node& node) { return node.kind == kind; });
      at = static_cast<NodeId>(found - parts_.nodes.begin());
      return found != parts_.nodes.end();
    };
    if (!is(NodeKind::kCpu)) is(NodeKind::kGpu);
    Names names;
    for (NodeId id = first; id < parts_.nodes.size(); ++id) names.unique(parts_.nodes[id].name, "");
    const auto nic = static_cast<NodeId>(parts_.nodes.size());
    parts_.nodes.push_back({NodeKind::kNic, host, names.unique("nic", ""), {}});
    join(nic, at, LinkKind::kPci, {kLocalBandwidth, 0});
    ways_out_.push_back({nic, {kAssumedNetworkBandwidth, assumed_latency(LinkKind::kNetwork)}});
    assumptions_.add_of(
        parts_.hosts.back().name,
        fmt::format("it shows no NIC: one of {} Gbit/s is assumed", kAssumedNetworkBandwidth * 8));
  }

  void join() {
    const auto network = static_cast<NodeId>(parts_.nodes.size());
    parts_.nodes.push_back({NodeKind::kSwitch, kNoHost, "network", {}});
    for (const WayOut& way : ways_out_) join(way.from, network, LinkKind::kNetwork, way.pace);
    assumptions_.add(
        "nothing tells how the network between the hosts is built: one switch that never blocks "
        "is assumed, at the speed of each NIC");
  }

  void join(NodeId a, NodeId b, LinkKind kind, Pace pace) {
    parts_.links.push_back({a, b, kind, pace.bandwidth, pace.latency});
    parts_.links.push_back({b, a, kind, pace.bandwidth, pace.latency});
  }

  Assumptions& assumptions_;
  Parts parts_;
  Names names_;  // of hosts
  std::vector<WayOut> ways_out_;
};

/// Puts ranks on the nodes of a host.
class Seats {
 public:
  Seats(const Topology& topology, HostId host) {
    for (const NodeKind kind : {NodeKind::kCpu, NodeKind::kGpu}) {
      for (const NodeId id : topology.nodes_of(host)) {
        if (topology.node(id).kind != kind) continue;
        const std::string* affinity = find(topology.node(id).attributes, kAffinity);
        seats_.push_back({id, CpuMask::from_mask(affinity ? *affinity : "").value_or(CpuMask())});
      }
      if (!seats_.empty()) return;
    }
  }

  struct Choice {
    NodeId node = 0;
    std::size_t among = 0;  ///< how many were as good
  };
  Choice take(const CpuMask& cpus) {
    const bool near_any =
        std::ranges::any_of(seats_, [&](const Seat& seat) { return seat.cpus.intersects(cpus); });
    Seat* best = nullptr;
    std::size_t among = 0;
    for (Seat& seat : seats_) {
      if (near_any && !seat.cpus.intersects(cpus)) continue;
      ++among;
      if (best == nullptr || seat.ranks < best->ranks) best = &seat;
    }
    ++best->ranks;
    return {best->node, among};
  }

 private:
  struct Seat {
    NodeId node = 0;
    CpuMask cpus;
    std::size_t ranks = 0;
  };
  std::vector<Seat> seats_;
};

Placement place(const Topology& topology, std::span<const JobRank> ranks,
                Assumptions& assumptions) {
  std::vector<Seats> seats;
  for (HostId host = 0; host < topology.hosts().size(); ++host) seats.emplace_back(topology, host);
  Placement placement;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Seats::Choice choice = seats[ranks[rank].host].take(ranks[rank].cpus);
    placement.ranks.push_back(choice.node);
    if (choice.among > 1)
      assumptions.add_of(fmt::format("rank {}", rank),
                         "bound to no one CPU node: it is taken to run on the one with the fewest "
                         "ranks before it");
  }
  return placement;
}

/// kInvalidArgument where something cannot be fused.
Status check_all(std::span<const Noted> hosts, std::span<const JobRank> ranks) {
  for (std::size_t host = 0; host < hosts.size(); ++host)
    if (Status fit = check_host(hosts[host].topology); !fit)
      return make_error(Code::kInvalidArgument, "host {}: {}", host, fit.error().what);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank].host >= hosts.size())
      return make_error(Code::kInvalidArgument, "rank {} is on host {}, but there are {} hosts",
                        rank, ranks[rank].host, hosts.size());
  return ok_status();
}

}  // namespace

Status check_host(const Topology& topology) {
  if (topology.hosts().size() != 1)
    return make_error(Code::kInvalidArgument,
                      "it describes {} hosts: what is needed is a description of one",
                      topology.hosts().size());
  const auto holds_ranks = [](const Node& node) {
    return node.kind == NodeKind::kCpu || node.kind == NodeKind::kGpu;
  };
  if (std::ranges::none_of(topology.nodes(), holds_ranks))
    return make_error(Code::kInvalidArgument, "{} has no CPU or GPU, so that no rank can be on it",
                      shown(topology.hosts().front().name));
  return ok_status();
}

Result<JobTopology> fuse(std::span<const Noted> hosts, std::span<const JobRank> ranks) {
  TUTTI_TRY(check_all(hosts, ranks));
  Assumptions assumptions;
  if (hosts.size() == 1)
    for (const std::string& sentence : hosts.front().assumptions) assumptions.add(sentence);
  TUTTI_ASSIGN(Topology topology, hosts.size() == 1 ? Result<Topology>(hosts.front().topology)
                                                    : Fuser(assumptions).run(hosts));
  Placement placement = place(topology, ranks, assumptions);
  const std::uint64_t wiring = wiring_hash(topology);
  return JobTopology{std::move(topology), std::move(placement), assumptions.sentences(), wiring};
}

Noted without_details(const Noted& host) {
  constexpr std::array kRead = {kAffinity, kSpeed, kPhysicalFunction, kBusId};
  Parts parts = host.topology.parts();
  for (Host& its : parts.hosts) its.attributes.clear();
  for (Node& node : parts.nodes)
    std::erase_if(node.attributes, [&](const Attribute& attribute) {
      return std::ranges::find(kRead, attribute.key) == kRead.end();
    });
  return {*Topology::create(std::move(parts)), host.assumptions};
}

Noted unknown_host(std::string_view name, std::string_view why) {
  Draft draft;
  draft.name_host(name);
  draft.add(NodeKind::kCpu, "cpu0", {});
  draft.assume(why);
  return *std::move(draft).finish();
}

}  // namespace tutti::topo
