// The host: its name and maker, and what this process may use of it.
#include <charconv>
#include <string>

#include <fmt/format.h>

#include "src/topo/detect/detection.hpp"
#include "src/topo/model/cpu_mask.hpp"

namespace tutti::topo::detection {
namespace {

/// What stands behind `key` in a text of lines; nullopt where no line begins with it.
std::optional<std::string> line_after(const std::string& text, std::string_view key) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    if (line.starts_with(key)) {
      const auto value = line.substr(key.size());
      const std::size_t first = std::min(value.find_first_not_of(" \t"), value.size());
      return std::string(value.substr(first));
    }
    at = end + 1;
  }
  return std::nullopt;
}

/// The group of this process in version 1's hierarchy of `controller`; nullopt: there is none.
std::optional<std::string> group_of(const std::string& groups, std::string_view controller) {
  for (std::size_t at = 0; at < groups.size();) {
    const std::size_t end = std::min(groups.find('\n', at), groups.size());
    const std::string line = "," + groups.substr(at, end - at);
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    at = end + 1;
    if (second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    if (names.find(fmt::format(",{},", controller)) != std::string::npos)
      return line.substr(second + 1);
  }
  return std::nullopt;
}

/// `visit` gets the directory of a group and of each above it, at most 64, until it returns true.
template <class Visit>
void upwards(const std::string& mount, std::string group, Visit visit) {
  while (group.ends_with('/')) group.pop_back();
  for (int depth = 0; depth < 64; ++depth) {
    if (visit(mount + group) || group.empty()) return;
    group.resize(std::min(group.rfind('/'), group.size()));
    if (group.find('/') == std::string::npos) group.clear();
  }
}

double positive(std::string_view text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value > 0 && value < 1e15 ? value : 0;
}

/// CPUs that cpu.max ("150000 100000") or version 1's two files grant; 0: no limit.
double limit_of_group(Inquiry& ask, const std::string& directory, bool unified) {
  std::string quota, period;
  if (unified) {
    const std::string both = ask.word(directory + "/cpu.max").value_or("");
    const std::size_t blank = std::min(both.find(' '), both.size());
    quota = both.substr(0, blank);
    period = both.substr(std::min(blank + 1, both.size()));
  } else {
    quota = ask.word(directory + "/cpu.cfs_quota_us").value_or("");
    period = ask.word(directory + "/cpu.cfs_period_us").value_or("");
  }
  return positive(period) > 0 ? positive(quota) / positive(period) : 0;
}

void say_limits(Inquiry& ask, const std::string& groups) {
  const auto unified = line_after(groups, "0::");
  const auto v1_cpu = group_of(groups, "cpu"), v1_cpuset = group_of(groups, "cpuset");
  double limit = 0;
  upwards(v1_cpu ? "/sys/fs/cgroup/cpu" : "/sys/fs/cgroup", v1_cpu.value_or(unified.value_or("")),
          [&](const std::string& directory) {
            const double its = limit_of_group(ask, directory, !v1_cpu);
            if (its > 0 && (limit == 0 || its < limit)) limit = its;
            return false;
          });
  if (limit > 0) ask.draft().say("cpu_limit", fmt::format("{:.3g}", limit));
  upwards(v1_cpuset ? "/sys/fs/cgroup/cpuset" : "/sys/fs/cgroup",
          v1_cpuset.value_or(unified.value_or("")), [&](const std::string& directory) {
            const auto cpus = ask.word(
                directory + (v1_cpuset ? "/cpuset.effective_cpus" : "/cpuset.cpus.effective"));
            if (!cpus || !CpuMask::from_list(*cpus)) return false;
            ask.draft().say("cpuset", *cpus);
            return true;
          });
}

std::string container(Inquiry& ask, const std::string& groups) {
  if (groups.find("kubepods") != std::string::npos) return "kubernetes";
  if (ask.exists("/run/.containerenv")) return "podman";
  if (ask.exists("/.dockerenv")) return "docker";
  return ask.word("/run/systemd/container").value_or("");
}

void say_affinity(Inquiry& ask) {
  const auto status = ask.word("/proc/self/status");
  const auto cpus = status ? line_after(*status, "Cpus_allowed_list:") : std::nullopt;
  if (cpus && CpuMask::from_list(*cpus))
    ask.draft().say("affinity", *cpus);
  else
    ask.draft().assume(
        "/proc/self/status tells no CPUs that this process may use: all are assumed");
}

}  // namespace

void detect_host(Inquiry& ask) {
  if (const auto name = ask.word("/proc/sys/kernel/hostname"))
    ask.draft().name_host(*name);
  else
    ask.draft().assume("/proc/sys/kernel/hostname tells no name: the host is called `host`");
  ask.draft().say("maker", ask.word("/sys/class/dmi/id/sys_vendor").value_or(""));
  ask.draft().say("product", ask.word("/sys/class/dmi/id/product_name").value_or(""));
  say_affinity(ask);
  const auto groups = ask.word("/proc/self/cgroup");
  if (groups)
    say_limits(ask, *groups);
  else
    ask.draft().assume("/proc/self/cgroup cannot be read: no limits of control groups are assumed");
  ask.draft().say("container", container(ask, groups.value_or("")));
  const auto own = ask.link_target("/proc/self/ns/net"), init = ask.link_target("/proc/1/ns/net");
  if (own && init) ask.draft().say("network_namespace", *own == *init ? "init" : "own");
}

}  // namespace tutti::topo::detection
