// Reads NCCL's topology files: from elements to nodes. The links follow in links.cpp.
#include <algorithm>
#include <set>
#include <utility>

#include "src/base/result.hpp"
#include "src/topo/model/bandwidths.hpp"
#include "src/topo/model/words.hpp"
#include "src/topo/nccl/format.hpp"
#include "src/topo/nccl/reader.hpp"
#include "src/topo/nccl/xml.hpp"

namespace tutti::topo {
namespace nccl {
namespace {

bool is(pugi::xml_node element, std::string_view name) { return element.name() == name; }

std::size_t count(pugi::xml_node element, const char* name) {
  return static_cast<std::size_t>(std::ranges::distance(element.children(name)));
}

PciClass class_of(pugi::xml_node pci) { return pci_class(pci.attribute("class").value()); }

/// An NVSwitch's own PCI function, or that of a CPU's NVLinks: no data passes through it.
bool only_manages(pugi::xml_node pci) {
  const PciClass its = class_of(pci);
  const bool holds_something =
      pci.child("pci") || pci.child("gpu") || pci.child("nic") || pci.child("pcilink");
  return !holds_something && (its == PciClass::kNvswitch || its == PciClass::kCpu);
}

/// Whether a child of `parent` becomes a node, or part of one beside `parent`.
bool makes_node(pugi::xml_node parent, pugi::xml_node child) {
  if (is(child, "pci")) return (is(parent, "cpu") || is(parent, "pci")) && !only_manages(child);
  if (is(child, "nic")) return is(parent, "cpu") || is(parent, "pci");
  if (is(child, "gpu")) return is(parent, "pci");
  if (is(child, "net")) return is(parent, "nic");
  return is(child, "cpu") && is(parent, "system");
}

/// Whether the format has this child there, though it makes no node.
bool has_meaning(pugi::xml_node parent, pugi::xml_node child) {
  if (is(parent, "gpu")) return is(child, "nvlink") || is(child, "xgmi") || is(child, "c2c");
  if (is(parent, "pci") && is(child, "pcilink")) return true;
  return is(child, "pci") && (is(parent, "cpu") || is(parent, "pci"));
}

struct Uplink {
  double bandwidth = 0;
  double latency = 0;
};

class XmlReader {
 public:
  XmlReader(const XmlText& xml, Assumptions& assumptions) : xml_(xml), assumptions_(assumptions) {}

  Result<Elements> run() {
    const pugi::xml_node system = xml_.root();
    TUTTI_TRY(check_version(system));
    for (const pugi::xml_node cpu : system.children("cpu")) TUTTI_TRY(read_cpu(cpu));
    if (out_.cpus.empty())
      return xml_.error(system, "<system> holds no <cpu>, so it describes no machine");
    out_.parts.hosts[0].attributes = words_of({&system, 1});
    return std::move(out_);
  }

 private:
  Status check_version(pugi::xml_node system) {
    TUTTI_TRY(check_values(xml_, system));
    TUTTI_ASSIGN(const auto version, xml_.integer(system, "version", {1, 2}));
    if (version == 2)
      assumptions_.add(system,
                       "version 2 is RCCL's: of what it adds, xgmi and gcn count, and the "
                       "rest is kept");
    return ok_status();
  }

  Status read_cpu(pugi::xml_node cpu) {
    TUTTI_TRY(check_values(xml_, cpu));
    host_ = host_of(cpu);
    const std::string numa = cpu.attribute("numaid").value();
    cpu_ = add_node(NodeKind::kCpu, {&cpu, 1}, "cpu" + numa);
    out_.cpus.push_back({cpu_, cpu, cpu_});
    for (const pugi::xml_node child : cpu.children()) {
      if (!makes_node(cpu, child)) continue;
      if (is(child, "pci")) TUTTI_TRY(read_pci(child, cpu_));
      // A NIC that is no PCI function is software: it costs no more than memory.
      if (is(child, "nic")) TUTTI_TRY(read_nic(child, cpu_, {kLocalBandwidth, 0}));
    }
    return ok_status();
  }

  /// At most XmlText::kMostDepth deep.
  Status read_pci(pugi::xml_node pci, NodeId parent) {
    TUTTI_TRY(check_values(xml_, pci));
    if (!pci.attribute("busid")) return xml_.error(pci, "<pci> lacks busid");
    TUTTI_ASSIGN(const double bandwidth, bandwidth_of_pci(xml_, pci, assumptions_));
    TUTTI_ASSIGN(const double latency, xml_.real_or(pci, "tutti_latency_us", 0));
    const Uplink up = {bandwidth, latency};
    const std::size_t gpus = count(pci, "gpu");
    const std::size_t nics = count(pci, "nic");
    const bool alone = !pci.child("pci");
    if (alone && gpus == 1 && nics == 0) return read_gpu(pci, pci.child("gpu"), parent, up);
    if (alone && nics == 1 && gpus == 0 && count(pci.child("nic"), "net") <= 1)
      return read_lone_nic(pci, parent, up);
    const PciClass its = class_of(pci);
    if (alone && gpus + nics == 0 && (its == PciClass::kGpu || its == PciClass::kNic))
      return read_bare_function(pci, parent, up, its);
    return read_switch(pci, parent, up);
  }

  Status read_switch(pugi::xml_node pci, NodeId parent, Uplink up) {
    const NodeId node = add_node(NodeKind::kPci, {&pci, 1}, pci.attribute("busid").value());
    out_.pcis.push_back({node, pci, cpu_});
    join(node, parent, up);
    for (const pugi::xml_node child : pci.children()) {
      if (!makes_node(pci, child)) continue;
      if (is(child, "pci")) TUTTI_TRY(read_pci(child, node));
      if (is(child, "gpu")) TUTTI_TRY(read_gpu({}, child, node, up));
      if (is(child, "nic")) TUTTI_TRY(read_nic(child, node, up));
    }
    return ok_status();
  }

  /// `pci` is empty where it is a node of its own, which several GPUs share.
  Status read_gpu(pugi::xml_node pci, pugi::xml_node gpu, NodeId parent, Uplink up) {
    TUTTI_TRY(check_values(xml_, gpu));
    const std::string name = std::string("gpu") + gpu.attribute("dev").value();
    const pugi::xml_node both[] = {pci, gpu};
    const auto made_of = std::span(both).subspan(pci ? 0 : 1);
    const NodeId node = add_node(NodeKind::kGpu, made_of, name);
    if (pci) out_.pcis.push_back({node, pci, cpu_});
    out_.gpus.push_back({node, gpu, cpu_});
    join(node, parent, up);
    return ok_status();
  }

  /// A PCI function with a NIC that has one net or none.
  Status read_lone_nic(pugi::xml_node pci, NodeId parent, Uplink up) {
    const pugi::xml_node nic = pci.child("nic");
    const pugi::xml_node net = nic.child("net");
    TUTTI_TRY(check_values(xml_, net));
    const pugi::xml_node all[] = {pci, nic, net};
    const NodeId node = add_node(NodeKind::kNic, std::span(all).first(net ? 3 : 2),
                                 net ? net.attribute("name").value() : "");
    out_.pcis.push_back({node, pci, cpu_});
    join(node, parent, up);
    return ok_status();
  }

  /// Several nets of one NIC are a node each; what the NIC says itself is kept in the first.
  Status read_nic(pugi::xml_node nic, NodeId parent, Uplink up) {
    bool first = true;
    for (const pugi::xml_node net : nic.children("net")) {
      TUTTI_TRY(check_values(xml_, net));
      const pugi::xml_node both[] = {nic, net};
      const auto made_of = std::span(both).subspan(std::exchange(first, false) ? 0 : 1);
      join(add_node(NodeKind::kNic, made_of, net.attribute("name").value()), parent, up);
    }
    if (first) join(add_node(NodeKind::kNic, {&nic, 1}, ""), parent, up);
    return ok_status();
  }

  /// Files for virtual machines name the PCI functions of GPUs and NICs and leave the rest to NCCL.
  Status read_bare_function(pugi::xml_node pci, NodeId parent, Uplink up, PciClass its) {
    const bool gpu = its == PciClass::kGpu;
    assumptions_.add(pci, gpu ? "a <pci> of a GPU's class without a <gpu> in it counts as a GPU"
                              : "a <pci> of a NIC's class without a <nic> in it counts as a NIC");
    const NodeId node =
        add_node(gpu ? NodeKind::kGpu : NodeKind::kNic, {&pci, 1}, pci.attribute("busid").value());
    out_.pcis.push_back({node, pci, cpu_});
    join(node, parent, up);
    return ok_status();
  }

  HostId host_of(pugi::xml_node cpu) {
    const std::string hash = cpu.attribute("host_hash").value();
    const auto next = static_cast<HostId>(out_.parts.hosts.size());
    const auto [known, added] = hosts_.try_emplace(hash, next);
    if (added) {
      out_.parts.hosts.push_back({hash.empty() ? "host" : hash, {}});
      names_.emplace(next, kNvswitches);
    }
    return known->second;
  }

  NodeId add_node(NodeKind kind, std::span<const pugi::xml_node> elements, std::string_view name) {
    const auto id = static_cast<NodeId>(out_.parts.nodes.size());
    out_.parts.nodes.push_back({kind, host_, unique_name(kind, name), words_of(elements)});
    std::string made_of;
    for (const pugi::xml_node element : elements)
      made_of += (made_of.empty() ? "" : "/") + std::string(element.name());
    auto& attributes = out_.parts.nodes.back().attributes;
    if (made_of != usual_elements(kind)) attributes.push_back({std::string(kElements), made_of});
    std::ranges::sort(attributes, {}, &Attribute::key);
    return id;
  }

  /// `name`, or the kind's where it is none, followed by #2, #3 and so on where others have it.
  std::string unique_name(NodeKind kind, std::string_view name) {
    constexpr std::size_t kLongest = 200;  // leaves room for the number
    std::string base(is_name(name) && name.size() <= kLongest ? name : name_of(kind));
    std::string unique = base;
    std::uint32_t& number = numbers_[{host_, base}];
    while (!names_.emplace(host_, unique).second) unique = fmt::format("{}#{}", base, ++number + 1);
    return unique;
  }

  /// Attributes, and children that make no node, word for word.
  std::vector<Attribute> words_of(std::span<const pugi::xml_node> elements) {
    std::vector<Attribute> words;
    for (const pugi::xml_node element : elements) {
      for (const pugi::xml_attribute attribute : element.attributes())
        words.push_back({key_of(element.name(), attribute.name()), attribute.value()});
      std::size_t position = 0;
      for (const pugi::xml_node child : element.children()) {
        if (!makes_node(element, child)) {
          words.push_back({key_of_child(element.name(), position), to_line(child)});
          if (!has_meaning(element, child))
            assumptions_.add(child, fmt::format("<{}> in <{}> is kept and means nothing here",
                                                child.name(), element.name()));
        }
        ++position;
      }
    }
    std::ranges::sort(words, {}, &Attribute::key);
    return words;
  }

  void join(NodeId node, NodeId parent, Uplink up) {
    auto& links = out_.parts.links;
    links.push_back({node, parent, LinkKind::kPci, up.bandwidth, up.latency});
    links.push_back({parent, node, LinkKind::kPci, up.bandwidth, up.latency});
  }

  const XmlText& xml_;
  Assumptions& assumptions_;
  Elements out_;
  NodeId cpu_ = 0;   // that is being read
  HostId host_ = 0;  // of it
  std::map<std::string, HostId> hosts_;
  std::set<std::pair<HostId, std::string>> names_;
  std::map<std::pair<HostId, std::string>, std::uint32_t> numbers_;
};

}  // namespace

void Assumptions::add(pugi::xml_node where, const std::string& sentence) {
  const auto known = known_.find(sentence);
  if (known != known_.end()) {
    ++entries_[known->second].times;
  } else if (entries_.size() < kMost) {
    known_.emplace(sentence, entries_.size());
    entries_.push_back({sentence, where, 1});
  }
}

std::vector<std::string> Assumptions::sentences() const {
  std::vector<std::string> all;
  all.reserve(entries_.size());
  for (const Entry& entry : entries_)
    all.push_back(
        fmt::format("{}{}: {}", xml_.place(entry.first),
                    entry.times == 1 ? "" : fmt::format(" and {} more places", entry.times - 1),
                    entry.sentence));
  return all;
}

}  // namespace nccl

Result<Noted> read_nccl_xml(std::string_view text) {
  TUTTI_ASSIGN(const XmlText xml, XmlText::parse(text, "system"));
  nccl::Assumptions assumptions(xml);
  TUTTI_ASSIGN(nccl::Elements elements, nccl::XmlReader(xml, assumptions).run());
  TUTTI_TRY(nccl::add_links(xml, elements, assumptions));
  TUTTI_ASSIGN(Topology topology, Topology::create(std::move(elements.parts)));
  return Noted{std::move(topology), assumptions.sentences()};
}

}  // namespace tutti::topo
