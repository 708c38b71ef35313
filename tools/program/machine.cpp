#include "tools/program/machine.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace tutti::tools {
namespace {

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int allowed_cpus() {
  for (int most = 1024; most <= 1 << 16;
       most *= 2) {  // the kernel refuses masks that are too short
    const std::size_t bytes = CPU_ALLOC_SIZE(most);
    std::vector<cpu_set_t> mask(bytes / sizeof(cpu_set_t) + 1);
    if (::sched_getaffinity(0, bytes, mask.data()) == 0) return CPU_COUNT_S(bytes, mask.data());
  }
  return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
}

/// This process's control groups from the innermost to the root; limits hold on every level.
std::vector<std::filesystem::path> control_groups() {
  const std::filesystem::path root = "/sys/fs/cgroup";
  std::ifstream file("/proc/self/cgroup");
  std::vector<std::filesystem::path> groups;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::")) continue;
    std::filesystem::path group = root;
    group += line.substr(3);
    for (; group.native().size() > root.native().size(); group = group.parent_path())
      groups.push_back(group);
  }
  groups.push_back(root);
  return groups;
}

std::uint64_t meminfo_bytes(std::string_view key) {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    std::istringstream fields(line.substr(key.size() + 1));
    std::uint64_t kib = 0;
    fields >> kib;
    return kib * 1024;
  }
  return 0;
}

std::optional<std::uint64_t> parse_memory_max(const std::string& line) {
  std::istringstream fields(line);
  std::uint64_t bytes = 0;
  return fields >> bytes ? std::optional(bytes) : std::nullopt;
}

template <class Number, class Parse>
std::optional<Number> smallest_limit(const char* file, Parse parse) {
  std::optional<Number> smallest;
  for (const auto& group : control_groups())
    if (const auto limit = parse(first_line(group / file)))
      smallest = smallest ? std::min(*smallest, *limit) : *limit;
  return smallest;
}

}  // namespace

std::optional<double> parse_cpu_max(const std::string& line) {
  std::istringstream fields(line);
  double quota = 0, period = 0;
  if (!(fields >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

Machine this_machine() {
  utsname kernel{};
  ::uname(&kernel);
  return {.cpus_online = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)),
          .cpus_allowed = allowed_cpus(),
          .cpus_quota = smallest_limit<double>("cpu.max", parse_cpu_max),
          .memory_bytes = meminfo_bytes("MemTotal:"),
          .memory_available_bytes = meminfo_bytes("MemAvailable:"),
          .memory_limit_bytes = smallest_limit<std::uint64_t>("memory.max", parse_memory_max),
          .kernel = std::string(kernel.sysname) + " " + kernel.release + " " + kernel.machine};
}

}  // namespace tutti::tools
