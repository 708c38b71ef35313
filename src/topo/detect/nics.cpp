// NICs: InfiniBand and RoCE ports, and network interfaces.
#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string>

#include <fmt/format.h>

#include "src/topo/detect/detection.hpp"
#include "src/topo/model/words.hpp"

namespace tutti::topo::detection {
namespace {

constexpr const char* kVerbs = "/sys/class/infiniband";
constexpr const char* kNet = "/sys/class/net";
constexpr double kFastest = 1e8;  // Mbit/s: faster than any port is no speed

/// A port that can carry data.
struct Port {
  std::string name;    ///< of the NIC
  std::string bus_id;  ///< of its PCI function; "": it hangs on none
  double mbit_per_s = 0;
  std::vector<Attribute> words;
};

/// The PCI function that a link of sysfs leads through last; "": none.
std::string bus_id_in(std::string_view link) {
  std::string found;
  while (!link.empty()) {
    const std::size_t end = std::min(link.find('/'), link.size());
    if (is_bus_id(link.substr(0, end))) found = link.substr(0, end);
    link.remove_prefix(std::min(end + 1, link.size()));
  }
  return found;
}

/// "400 Gb/sec (4X NDR)", "2.5 Gb/sec (1X SDR)" in Mbit/s; 0 for what is none.
double rate_of(std::string_view text) {
  double gbit_per_s = 0;
  const char* const end = text.data() + text.size();
  const auto [unit, failure] = std::from_chars(text.data(), end, gbit_per_s);
  const bool known = failure == std::errc{} && std::string_view(unit, end).starts_with(" Gb/sec");
  return known && gbit_per_s > 0 && gbit_per_s * 1000 < kFastest ? gbit_per_s * 1000 : 0;
}

class NicReader {
 public:
  NicReader(Inquiry& ask, PciBus& pci) : ask_(ask), pci_(pci), draft_(ask.draft()) {}

  void run() {
    for (const std::string& device : ask_.names(kVerbs)) read_verbs(device);
    const std::vector<std::string> interfaces = ask_.names(kNet);
    for (const std::string& name : interfaces) read_interface(name);
    if (ports_.empty())
      for (const std::string& name : virtual_) read_virtual(name);
    note_missing();
    // Physical functions first: virtual ones use their ports.
    for (const Port& port : ports_)
      if (physical_of(port).empty()) add(port);
    for (const Port& port : ports_)
      if (!physical_of(port).empty()) add(port);
  }

 private:
  void read_verbs(const std::string& device) {
    const std::string directory = fmt::format("{}/{}", kVerbs, device);
    const std::string bus_id = bus_id_in(ask_.link_target(directory).value_or(""));
    const std::vector<std::string> interfaces = ask_.names(directory + "/device/net");
    owned_.insert(interfaces.begin(), interfaces.end());
    seen_.insert(bus_id);
    const std::vector<std::string> ports = ask_.names(directory + "/ports");
    if (ports.empty()) draft_.assume_of(device, "its ports cannot be read: it is left out");
    for (const std::string& port : ports) {
      const std::string of_port = fmt::format("{}/ports/{}", directory, port);
      const std::string name = ports.size() == 1 ? device : fmt::format("{}:{}", device, port);
      const std::string state = ask_.word(of_port + "/state").value_or("unknown");
      if (state.find("ACTIVE") == std::string::npos) {  // "4: ACTIVE"
        draft_.assume_of(name,
                         fmt::format("its port is in state {}: it is left out", shown(state)));
        continue;
      }
      double speed = rate_of(ask_.word(of_port + "/rate").value_or(""));
      if (speed == 0 && !interfaces.empty()) speed = speed_of(interfaces.front());
      Port found = {name, bus_id, speed, {{"name", device}, {"port", port}}};
      found.words.push_back({"link_layer", ask_.word(of_port + "/link_layer").value_or("")});
      for (const std::string& interface : interfaces) found.words.push_back({"netdev", interface});
      ports_.push_back(std::move(found));
    }
  }

  /// Mbit/s; 0 where none is told.
  double speed_of(const std::string& interface) {
    const auto speed = ask_.number(fmt::format("{}/{}/speed", kNet, interface));
    if (!speed || *speed <= 0 || static_cast<double>(*speed) > kFastest) return 0;
    return static_cast<double>(*speed);
  }

  void read_interface(const std::string& name) {
    if (name == "lo" || owned_.contains(name)) return;
    const auto link = ask_.link_target(fmt::format("{}/{}", kNet, name));
    if (!link) return;  // a file such as bonding_masters
    if (link->find("/virtual/") != std::string::npos) {
      virtual_.push_back(name);
      return;
    }
    const std::string bus_id = bus_id_in(*link);
    seen_.insert(bus_id);
    const std::string state = state_of(name);
    if (!is_up(state)) {
      draft_.assume_of(name, fmt::format("its link is {}: it is left out", shown(state)));
      return;
    }
    if (bus_id.empty())
      draft_.assume_of(name,
                       "it hangs on no PCI function: it is assumed to be no slower to reach "
                       "than memory");
    add_port(name, bus_id);
  }

  /// A bridge passes on what others carry.
  void read_virtual(const std::string& name) {
    if (!is_up(state_of(name)) || !ask_.names(fmt::format("{}/{}/bridge", kNet, name)).empty())
      return;
    draft_.assume_of(name,
                     "a virtual interface, of which nothing tells what carries it: it counts "
                     "as a NIC, since there is no other");
    add_port(name, "");
  }

  std::string state_of(const std::string& interface) {
    return ask_.word(fmt::format("{}/{}/operstate", kNet, interface)).value_or("unknown");
  }
  /// Drivers of virtual machines often tell no state.
  static bool is_up(std::string_view state) { return state == "up" || state == "unknown"; }

  void add_port(const std::string& name, const std::string& bus_id) {
    ports_.push_back({name, bus_id, speed_of(name), {{"name", name}, {"port", "1"}}});
  }

  void note_missing() {
    for (const auto& [bus_id, function] : pci_.functions())
      if (function.role() == PciRole::kNic && function.physical.empty() && !seen_.contains(bus_id))
        draft_.assume_of(bus_id,
                         "a NIC of which this process sees no interface, for want of a "
                         "driver or in another namespace: it is left out");
    if (ports_.empty())
      draft_.assume("no network interface is up: no way out of the host is assumed");
  }

  /// The physical function of which a port's function is a virtual one, if that has a port here.
  std::string physical_of(const Port& port) {
    const PciFunction* const function = pci_.find(port.bus_id);
    const PciFunction* const physical = function ? pci_.find(function->physical) : nullptr;
    if (physical == nullptr || !physical->physical.empty()) return "";
    const bool has_port =
        std::ranges::find(ports_, physical->bus_id, &Port::bus_id) != ports_.end();
    return has_port ? physical->bus_id : "";
  }

  void add(const Port& port) {
    std::vector<Attribute> words = port.words;
    if (port.mbit_per_s > 0) words.push_back({"speed", fmt::format("{:.0f}", port.mbit_per_s)});
    const std::string physical = physical_of(port);
    words.push_back({"physical_function", physical});
    const NodeId nic = draft_.add(NodeKind::kNic, port.name, std::move(words));
    if (port.bus_id.empty())  // software, or on a bus that sysfs does not describe
      draft_.join(nic, draft_.nodes(NodeKind::kCpu).front(), LinkKind::kPci, {kLocalBandwidth, 0});
    else
      pci_.attach(nic, port.bus_id, PciBus::Idle::kStays);
    if (!physical.empty()) {
      const Outside& shared = outside_.at(physical);
      draft_.join(nic, shared.node, LinkKind::kNetwork, shared.pace);
      return;
    }
    if (port.mbit_per_s <= 0)
      draft_.assume_of(port.name,
                       fmt::format("no speed of its network is told: {} Gbit/s is assumed",
                                   kAssumedNetworkBandwidth * 8));
    const Pace pace = {network_bandwidth(port.mbit_per_s), assumed_latency(LinkKind::kNetwork)};
    const NodeId outside = draft_.add(NodeKind::kSwitch, port.name + ".network", {});
    draft_.join(nic, outside, LinkKind::kNetwork, pace);
    outside_.try_emplace(port.bus_id, Outside{outside, pace});
  }

  struct Outside {
    NodeId node = 0;
    Pace pace;
  };

  Inquiry& ask_;
  PciBus& pci_;
  Draft& draft_;
  std::vector<Port> ports_;
  std::vector<std::string> virtual_;        // interfaces
  std::set<std::string> owned_;             // interfaces of InfiniBand and RoCE devices
  std::set<std::string> seen_;              // PCI functions of interfaces, whatever their state
  std::map<std::string, Outside> outside_;  // by the address of the PCI function
};

}  // namespace

void detect_nics(Inquiry& ask, PciBus& pci) { NicReader(ask, pci).run(); }

}  // namespace tutti::topo::detection
