// Findings about one pair of hosts.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "tools/doctor/findings.hpp"

namespace tutti::doctor {
namespace {

std::string rail_name(const verbs::Rail& rail) {
  return fmt::format("{} port {}", rail.device, rail.port);
}

/// "RoCE v2 10.0.0.1/24"
std::string gid_text(const verbs::Rail& rail) {
  const bool mapped = verbs::is_ipv4(rail.gid);
  const int bits = mapped ? std::max(0, rail.prefix_bits - 96) : rail.prefix_bits;
  return fmt::format("{} {}{}", verbs::name_of(rail.type), verbs::to_string(rail.gid),
                     bits > 0 ? fmt::format("/{}", bits) : "");
}

std::string gid_list(const std::vector<verbs::Rail>& rails) {
  std::string text;
  for (const verbs::Rail& rail : rails)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", rail_name(rail), gid_text(rail));
  return text;
}

std::set<verbs::GidType> types_of(const std::vector<verbs::Rail>& rails) {
  std::set<verbs::GidType> types;
  for (const verbs::Rail& rail : rails) types.insert(rail.type);
  return types;
}

bool wants_rdma(const HostFacts& host) { return transport_of(host) == "verbs"; }

class PairFindings {
 public:
  PairFindings(const PairFacts& pair, const HostFacts& first, const HostFacts& second)
      : pair_(pair), first_(first), second_(second) {}

  std::vector<Finding> all() {
    if (pair_.of_first) reach(pair_.of_first->reach, first_, second_);
    if (pair_.of_second) reach(pair_.of_second->reach, second_, first_);
    if (pair_.of_first && findings_.empty()) tcp(pair_.of_first->tcp);
    rdma();
    return std::move(findings_);
  }

 private:
  [[nodiscard]] std::string place() const {
    return fmt::format("{} - {}", first_.name, second_.name);
  }
  void add(Severity severity, std::string what, std::string why, std::string remedy) {
    findings_.push_back({severity, place(), std::move(what), std::move(why), std::move(remedy)});
  }

  void reach(const Reach& reach, const HostFacts& from, const HostFacts& to) {
    if (reach.outcome == Reach::Outcome::kReached) return;
    constexpr const char* kWhy =
        "of two ranks either one may have to connect to the other, so jobs on these hosts fail, "
        "always or sometimes";
    Finding finding{Severity::kError, fmt::format("{} -> {}", from.name, to.name), {}, kWhy, {}};
    const std::string choose = fmt::format(
        "if {} is not the address for this traffic, set TUTTI_SOCKET_IFNAME on {} to "
        "the right interface",
        to.tcp.address, to.name);
    switch (reach.outcome) {
      case Reach::Outcome::kReached:
        break;
      case Reach::Outcome::kTimedOut:
        finding.what = fmt::format("{} gets no answer from {} at {} over TCP: timed out", from.name,
                                   to.name, to.tcp.address);
        finding.remedy = fmt::format(
            "most likely a firewall drops the packets: on {} (or between the hosts) let in TCP "
            "from {}, ports {}-{}{}; {}",
            to.name, from.name, to.first_port, to.last_port, by_firewall(to), choose);
        break;
      case Reach::Outcome::kRefused:
        finding.what = fmt::format("{} refuses the TCP connection of {} to {}", to.name, from.name,
                                   to.tcp.address);
        finding.remedy = fmt::format(
            "the host answers, and something rejects the connection: a firewall rule on {} "
            "(REJECT; let in TCP from {}, ports {}-{}{}), or the address belongs to another "
            "machine; {}",
            to.name, from.name, to.first_port, to.last_port, by_firewall(to), choose);
        break;
      case Reach::Outcome::kNoRoute:
        finding.what = fmt::format("{} has no route to {} of {}: {}", from.name, to.tcp.address,
                                   to.name, reach.text);
        finding.remedy = fmt::format(
            "look at `ip route get ADDRESS` on {}: add the route, or choose a network that both "
            "have. firewalld answers so, too: then let in TCP from {} on {}, ports {}-{}{}; {}",
            from.name, from.name, to.name, to.first_port, to.last_port, by_firewall(to), choose);
        break;
      case Reach::Outcome::kFailed:
        finding.what = fmt::format("{} cannot connect to {} at {}: {}", from.name, to.name,
                                   to.tcp.address, reach.text);
        finding.remedy = choose;
        break;
    }
    findings_.push_back(std::move(finding));
  }

  static std::string by_firewall(const HostFacts& host) {
    return host.firewall.empty() ? "" : fmt::format(" ({} is active there)", host.firewall);
  }

  void tcp(const LinkFacts& link) {
    if (!link.connected) {
      add(Severity::kError, fmt::format("no TCP connection of ranks came about: {}", link.error),
          "jobs on these hosts fail",
          "look for two hosts with one address, and for a proxy or NAT between them, which answer "
          "in the other's place; TUTTI_DEBUG=INFO logs more");
    } else if (link.large_hangs) {
      add(Severity::kError,
          fmt::format("over TCP small messages arrive, and large ones do not (MTU {} at {}, {} at "
                      "{})",
                      first_.tcp.mtu, first_.name, second_.tcp.mtu, second_.name),
          "large packets are lost on the way, and nobody tells the sender (path MTU discovery is "
          "broken): jobs hang in their first large message",
          fmt::format("find what passes: `ping -M do -s 8972 ADDRESS` (for MTU 9000; 1472 for "
                      "1500); give hosts and switches one MTU (`ip link set {} mtu 1500`), and let "
                      "ICMP 'fragmentation needed' through firewalls; or `sysctl "
                      "net.ipv4.tcp_mtu_probing=1`",
                      first_.tcp.name));
    } else if (!link.error.empty()) {
      add(Severity::kError, fmt::format("measuring over TCP failed: {}", link.error),
          "a job would see the same", "look at the hosts' logs (`dmesg`) and at the network");
    }
    if (first_.tcp.mtu > 0 && second_.tcp.mtu > 0 && first_.tcp.mtu != second_.tcp.mtu)
      add(Severity::kWarning,
          fmt::format("{} of {} has MTU {}, {} of {} has MTU {}", first_.tcp.name, first_.name,
                      first_.tcp.mtu, second_.tcp.name, second_.name, second_.tcp.mtu),
          "in one network, packets that are larger than the receiver's MTU are dropped; TCP copes "
          "where it knows both ends, and a switch in between may have a third MTU",
          "give all hosts and switches one MTU: `ip link set INTERFACE mtu 9000`, or 1500");
  }

  void rdma() {
    const bool here = !first_.rdma.rails.empty();
    const bool there = !second_.rdma.rails.empty();
    if (here != there) return one_side(here ? first_ : second_, here ? second_ : first_);
    if (!here) return;
    const auto matched = verbs::match_rails(first_.rdma.rails, second_.rdma.rails);
    if (!matched) return no_rail();
    for (const auto& [i, j] : *matched) compare(first_.rdma.rails[i], second_.rdma.rails[j]);
    lonely(first_, second_, [&](std::size_t i) {
      return std::ranges::any_of(*matched, [i](const auto& both) { return both.first == i; });
    });
    lonely(second_, first_, [&](std::size_t j) {
      return std::ranges::any_of(*matched, [j](const auto& both) { return both.second == j; });
    });
    if (pair_.of_first && pair_.of_first->rdma) measured(*pair_.of_first->rdma);
  }

  [[nodiscard]] Severity severity_of_no_rdma() const {
    return wants_rdma(first_) || wants_rdma(second_) ? Severity::kError : Severity::kWarning;
  }
  [[nodiscard]] const char* meaning_of_no_rdma() const {
    return severity_of_no_rdma() == Severity::kError
               ? "TUTTI_TRANSPORT=verbs makes that an error of the job"
               : "TCP takes the place of RDMA between them, which is slower";
  }

  void one_side(const HostFacts& with, const HostFacts& without) {
    add(severity_of_no_rdma(),
        fmt::format("{} can use RDMA ({}), and {} cannot: {}", with.name, gid_list(with.rdma.rails),
                    without.name, lack_of(without.rdma)),
        meaning_of_no_rdma(), fmt::format("see `tutti topo --rdma` on {}", without.name));
  }
  static std::string lack_of(const RdmaFacts& rdma) {
    switch (rdma.state) {
      case RdmaFacts::State::kNotBuilt:
        return "its Tutti was built without libibverbs' headers";
      case RdmaFacts::State::kNoLibrary:
        return rdma.why;
      case RdmaFacts::State::kNoDevice:
        return "it has no RDMA device";
      case RdmaFacts::State::kDevices:
        break;
    }
    return rdma.left_out.empty() ? rdma.transport_error
                                 : fmt::format("{}", fmt::join(rdma.left_out, "; "));
  }

  void no_rail() {
    const auto here = types_of(first_.rdma.rails);
    const auto there = types_of(second_.rdma.rails);
    const bool types_differ = std::ranges::none_of(here, [&](auto t) { return there.contains(t); });
    add(severity_of_no_rdma(),
        fmt::format("no RDMA port of one meets a port of the other, since their {}: {} has {}; {} "
                    "has {}",
                    types_differ ? "GIDs are of different types" : "addresses share no subnet",
                    first_.name, gid_list(first_.rdma.rails), second_.name,
                    gid_list(second_.rdma.rails)),
        meaning_of_no_rdma(),
        types_differ ? "use the same type on both, RoCE v2: set TUTTI_IB_GID_INDEX on each host to "
                       "such an entry, or leave it unset (`tutti topo --rdma` lists the GIDs)"
                     : "give ports that share a switch addresses of one subnet, or use routable "
                       "ones");
  }

  template <class IsMatched>
  void lonely(const HostFacts& of, const HostFacts& other, IsMatched is_matched) {
    for (std::size_t i = 0; i < of.rdma.rails.size(); ++i) {
      const verbs::Rail& rail = of.rdma.rails[i];
      if (is_matched(i)) continue;
      const bool type_is_there = types_of(other.rdma.rails).contains(rail.type);
      findings_.push_back(
          {Severity::kWarning, fmt::format("{}, {} -> {}", of.name, rail_name(rail), other.name),
           fmt::format(
               "no port of {} meets this one ({}), whose {}", other.name, gid_text(rail),
               type_is_there ? "subnet the other has not" : "type of GID the other has not"),
           "the two hosts use one port less",
           type_is_there ? "give ports that share a switch addresses of one subnet"
                         : "use GIDs of type RoCE v2 on both (TUTTI_IB_GID_INDEX)"});
    }
  }

  void compare(const verbs::Rail& here, const verbs::Rail& there) {
    if (here.mtu != there.mtu)
      add(Severity::kWarning,
          fmt::format("the RDMA ports {} of {} and {} of {} have different MTUs: {} and {}",
                      rail_name(here), first_.name, rail_name(there), second_.name, here.mtu,
                      there.mtu),
          "the smaller one counts, and where a switch has yet another one, packets are lost",
          "give the network interfaces of both ports, and the switches, one MTU (`ip link set "
          "INTERFACE mtu 9000` makes 4096)");
    if (here.mbit_per_s != there.mbit_per_s && here.mbit_per_s > 0 && there.mbit_per_s > 0)
      add(Severity::kWarning,
          fmt::format("the RDMA ports {} of {} and {} of {} differ in speed: {} and {} Mbit/s",
                      rail_name(here), first_.name, rail_name(there), second_.name, here.mbit_per_s,
                      there.mbit_per_s),
          "the slower one holds up the other",
          "check cable, port and auto-negotiation of the "
          "slower one (`rdma link`, `ethtool INTERFACE`, `ibstat`)");
  }

  void measured(const LinkFacts& link) {
    if (link.connected && link.error.empty() && !link.large_hangs) return;
    add(severity_of_no_rdma(),
        link.large_hangs ? std::string("over RDMA small messages arrive, and large ones do not")
                         : fmt::format("RDMA between them fails: {}", link.error),
        link.large_hangs ? "jobs hang in their first large message" : meaning_of_no_rdma(),
        link.large_hangs ? "give both ports and the switches between them one MTU"
                         : "check that the two ports share a network and a VLAN, and that UDP port "
                           "4791 passes (RoCE v2): `rping` or `ib_write_bw` between the hosts");
  }

  const PairFacts& pair_;
  const HostFacts& first_;
  const HostFacts& second_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> findings_of(const PairFacts& pair, const HostFacts& first,
                                 const HostFacts& second) {
  return PairFindings(pair, first, second).all();
}

}  // namespace tutti::doctor
