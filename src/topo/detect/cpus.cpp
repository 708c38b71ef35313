// CPUs and memory: from hwloc, else from sysfs, else one CPU.
#include <charconv>
#include <string>

#include <fmt/format.h>

#include "src/topo/detect/detection.hpp"
#include "src/topo/hwloc/xml.hpp"
#include "src/topo/model/cpu_mask.hpp"

namespace tutti::topo::detection {
namespace {

constexpr const char* kNodes = "/sys/devices/system/node";

/// What /proc/cpuinfo says of the first CPU under one name, as in "vendor_id\t: AuthenticAMD".
std::string cpu_info(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
    if (at > 0 && text[at - 1] != '\n') continue;
    const std::string_view line = text.substr(at, text.find('\n', at) - at);
    const std::string_view rest = line.substr(name.size());
    const std::size_t value = rest.find(": ");
    if (value == rest.npos || rest.find_first_not_of(" \t") != value) continue;
    return std::string(rest.substr(value + 2));
  }
  return "";
}

int integer(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// The number in "node12"; nullopt for other names.
std::optional<std::size_t> node_number(std::string_view name) {
  constexpr std::string_view kPrefix = "node";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  std::size_t number = 0;
  const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (failure != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  return number;
}

void add_nodes_of_sysfs(Inquiry& ask) {
  const std::string info = ask.word("/proc/cpuinfo").value_or("");
  const std::string vendor = cpu_info(info, "vendor_id");
  const std::string family = cpu_info(info, "cpu family"), model = cpu_info(info, "model");
  // Linux gives x86 a vendor_id; of other CPUs it tells no architecture there.
  const std::string arch = vendor.empty() ? "" : "x86_64";
  std::size_t count = 0;
  for (const std::string& name : ask.names(kNodes)) {
    const auto number = node_number(name);
    if (!number || count == kMostNumaNodes) continue;
    const auto list = ask.word(fmt::format("{}/{}/cpulist", kNodes, name));
    const auto cpus = list ? CpuMask::from_list(*list) : std::nullopt;
    if (!cpus || cpus->empty()) continue;  // memory alone
    ++count;
    ask.draft().add(NodeKind::kCpu, fmt::format("cpu{}", *number),
                    {{"numaid", fmt::format("{}", *number)},
                     {"affinity", cpus->mask()},
                     {"arch", arch},
                     {"vendor", vendor},
                     {"familyid", family},
                     {"modelid", model},
                     {"model", cpu_info(info, "model name")}});
  }
  join_cpus(ask.draft(), {arch, vendor, integer(family), integer(model)});
}

}  // namespace

void detect_cpus(Inquiry& ask) {
  Draft& draft = ask.draft();
  const auto xml = ask.system().hwloc_xml();
  const Status read = xml ? add_hwloc_cpus(*xml, draft) : Status(xml.error());
  if (read) {
    ask.count_answer();
    return;
  }
  draft.assume(fmt::format("hwloc tells no CPUs ({}): sysfs is asked, which knows less of them",
                           read.error().what));
  add_nodes_of_sysfs(ask);
  if (!draft.nodes(NodeKind::kCpu).empty()) return;
  draft.assume(fmt::format("{} tells no CPUs: one is assumed", kNodes));
  draft.add(NodeKind::kCpu, "cpu0", {{"numaid", "0"}});
}

}  // namespace tutti::topo::detection
