// Reads hwloc's XML: the host and its CPUs. The devices follow in devices.cpp.
#include "src/topo/hwloc/xml.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <utility>

#include "src/base/cpus.hpp"
#include "src/base/result.hpp"
#include "src/topo/hwloc/reader.hpp"
#include "src/topo/model/host_parts.hpp"
#include "src/topo/model/words.hpp"

namespace tutti::topo {
namespace hwloc {
namespace {

bool is(pugi::xml_node object, std::string_view type) {
  return std::string_view(object.attribute("type").value()) == type;
}

Result<XmlText> parse(std::string_view text) {
  TUTTI_ASSIGN(XmlText xml, XmlText::parse(text, "topology", XmlWords::kSome));
  const std::string_view version = xml.root().attribute("version").value();
  if (!version.starts_with("2.") && !version.starts_with("3."))
    return xml.error(xml.root(), fmt::format("<topology> has version {}: write it with lstopo of "
                                             "hwloc 2 or 3",
                                             shown(version)));
  if (!is(xml.root().child("object"), "Machine"))
    return xml.error(xml.root(), "<topology> does not begin with a Machine");
  return xml;
}

/// What is gathered on the way to the NUMA nodes.
class CpuReader {
 public:
  explicit CpuReader(const XmlText& xml) : xml_(xml) {}

  Result<std::vector<Cpu>> run() {
    TUTTI_TRY(visit(xml_.root().child("object"), {}));
    std::ranges::sort(cpus_, {}, &Cpu::os_index);
    const auto twice = std::ranges::adjacent_find(cpus_, {}, &Cpu::os_index);
    if (twice != cpus_.end())
      return xml_.error(std::next(twice)->numa,
                        fmt::format("there are two NUMA nodes {}", twice->os_index));
    if (cpus_.empty()) return xml_.error(xml_.root(), "no NUMANode has a CPU");
    share_caches();
    return std::move(cpus_);
  }

 private:
  /// At most XmlText::kMostDepth deep.
  Status visit(pugi::xml_node object, pugi::xml_node package) {
    if (is(object, "NUMANode")) TUTTI_TRY(add(object, package));
    if (is(object, "Package")) package = object;
    TUTTI_TRY(note_cache(object));
    for (const pugi::xml_node child : object.children("object")) TUTTI_TRY(visit(child, package));
    return ok_status();
  }

  Status add(pugi::xml_node numa, pugi::xml_node package) {
    TUTTI_ASSIGN(CpuMask cpus, mask(xml_, numa, "cpuset"));
    if (cpus.empty()) return ok_status();  // memory alone
    TUTTI_ASSIGN(const auto os_index, xml_.integer(numa, "os_index", {0, 65535}));
    if (cpus_.size() == kMostNumaNodes)
      return xml_.error(numa, fmt::format("more than {} NUMA nodes are not read", kMostNumaNodes));
    cpus_.push_back({numa, package, static_cast<std::size_t>(os_index), std::move(cpus), {}, 0});
    return ok_status();
  }

  /// Types of caches are L1Cache to L5Cache; L1iCache holds instructions and no data.
  Status note_cache(pugi::xml_node object) {
    const std::string_view type = object.attribute("type").value();
    if (type.size() != 7 || !type.starts_with('L') || !type.ends_with("Cache")) return ok_status();
    TUTTI_ASSIGN(CpuMask cpus, mask(xml_, object, "cpuset"));
    TUTTI_ASSIGN(const auto bytes, xml_.integer_or(object, "cache_size", {0, INT64_MAX}, 0));
    if (!cpus.empty()) caches_.push_back({type[1], bytes, std::move(cpus)});
    return ok_status();
  }

  /// To each NUMA node the caches that serve its CPUs alone.
  void share_caches() {
    std::map<std::size_t, Cpu*> owner;  // by CPU
    for (Cpu& numa : cpus_)
      for (std::size_t cpu = 0; cpu < kMostCpus; ++cpu)
        if (numa.cpus.contains(cpu)) owner.try_emplace(cpu, &numa);
    for (const Cache& cache : caches_) {
      const auto found = owner.find(cache.cpus.lowest());
      if (found != owner.end() && cache.cpus.is_within(found->second->cpus))
        ++found->second->caches[cache.level][cache.bytes];
    }
  }

  struct Cache {
    char level = '1';
    std::int64_t bytes = 0;
    CpuMask cpus;
  };

  const XmlText& xml_;
  std::vector<Cpu> cpus_;
  std::vector<Cache> caches_;
};

/// The first package, which stands for all in what CPUs are made of; empty where there is none.
pugi::xml_node any_package(pugi::xml_node machine) {
  return machine.find_node([](pugi::xml_node node) { return is(node, "Package"); });
}

/// What hwloc 2 says of the Machine, and hwloc 3 of the whole topology.
std::string_view host_info(const XmlText& xml, const char* name) {
  const std::string_view of_machine = info(xml.root().child("object"), name);
  return of_machine.empty() ? info(xml.root(), name) : of_machine;
}

/// "arm64" for hwloc's "aarch64", and so on: the words of NCCL.
std::string arch_of(const XmlText& xml) {
  const std::string_view arch = host_info(xml, "Architecture");
  if (arch == "aarch64") return "arm64";
  return arch.starts_with("ppc64") ? "ppc64" : std::string(arch);
}

std::vector<Attribute> words_of(const XmlText& xml, const Cpu& cpu) {
  const pugi::xml_node machine = xml.root().child("object");
  const pugi::xml_node package = cpu.package ? cpu.package : any_package(machine);
  std::vector<Attribute> words = {{"numaid", fmt::format("{}", cpu.os_index)},
                                  {"affinity", cpu.cpus.mask()},
                                  {"arch", arch_of(xml)},
                                  {"vendor", info(package, "CPUVendor")},
                                  {"familyid", info(package, "CPUFamilyNumber")},
                                  {"modelid", info(package, "CPUModelNumber")},
                                  {"model", info(package, "CPUModel")},
                                  {"package", cpu.package.attribute("os_index").value()}};
  for (const auto& [level, sizes] : cpu.caches) {
    std::string text;
    for (const auto& [bytes, count] : sizes)
      text += fmt::format("{}{} x {} KiB", text.empty() ? "" : ", ", count, bytes / 1024);
    words.push_back({fmt::format("cache_l{}", level), text});
  }
  return words;
}

/// The number that `text` begins with, 0 where it is none.
int integer(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// Adds the CPUs to a draft, and to `cpus` their nodes.
void add_cpus(const XmlText& xml, std::vector<Cpu>& cpus, Draft& draft) {
  const pugi::xml_node machine = xml.root().child("object");
  const pugi::xml_node package = any_package(machine);
  const std::string arch = arch_of(xml);
  const CpuModel model = {arch, info(package, "CPUVendor"),
                          integer(info(package, "CPUFamilyNumber")),
                          integer(info(package, "CPUModelNumber"))};
  for (Cpu& cpu : cpus)
    cpu.node = draft.add(NodeKind::kCpu, fmt::format("cpu{}", cpu.os_index), words_of(xml, cpu));
  join_cpus(draft, model);
  draft.say("arch", arch);
}

}  // namespace

const char* info(pugi::xml_node object, const char* name) {
  return object.find_child_by_attribute("info", "name", name).attribute("value").value();
}

Result<CpuMask> mask(const XmlText& xml, pugi::xml_node object, const char* key) {
  const pugi::xml_attribute attribute = object.attribute(key);
  auto read = CpuMask::from_hwloc(attribute.value());
  if (!read) return xml.wrong_value(attribute, object, "a mask such as 0x0000000f,0x00000001");
  return *std::move(read);
}

}  // namespace hwloc

Status add_hwloc_cpus(std::string_view text, Draft& draft) {
  TUTTI_ASSIGN(const XmlText xml, hwloc::parse(text));
  TUTTI_ASSIGN(std::vector<hwloc::Cpu> cpus, hwloc::CpuReader(xml).run());
  hwloc::add_cpus(xml, cpus, draft);
  return ok_status();
}

Result<Noted> read_hwloc_xml(std::string_view text, std::string_view host) {
  TUTTI_ASSIGN(const XmlText xml, hwloc::parse(text));
  TUTTI_ASSIGN(std::vector<hwloc::Cpu> cpus, hwloc::CpuReader(xml).run());
  Draft draft;
  draft.name_host(host.empty() ? hwloc::host_info(xml, "HostName") : host);
  hwloc::add_cpus(xml, cpus, draft);
  TUTTI_TRY(hwloc::add_devices(xml, cpus, draft));
  return std::move(draft).finish();
}

}  // namespace tutti::topo
