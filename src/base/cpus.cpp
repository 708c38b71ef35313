#include "src/base/cpus.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>

#include <sched.h>
#include <sys/stat.h>

namespace tutti {
namespace {

/// The kernel refuses masks shorter than its own, so they grow until one fits.
std::vector<std::uint64_t> affinity_mask() {
  for (std::size_t cpus = 1024; cpus <= kMostCpus; cpus *= 2) {
    std::vector<std::uint64_t> mask(cpus / 64, 0);
    auto* const set = reinterpret_cast<cpu_set_t*>(mask.data());
    if (sched_getaffinity(0, mask.size() * sizeof(std::uint64_t), set) != 0) continue;
    while (!mask.empty() && mask.back() == 0) mask.pop_back();
    return mask;
  }
  return {};
}

/// The version 2 group of this process, as its namespace names it.
std::string own_control_group() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);)
    if (line.starts_with("0::")) return line.substr(3);
  return "/";
}

/// "150000 100000" is 1500; none for "max 100000" and where there is no such file.
std::optional<std::uint32_t> thousandths_of(const std::filesystem::path& cpu_max) {
  std::ifstream limit(cpu_max);
  std::string quota;
  double period = 0;
  if (!(limit >> quota >> period) || quota == "max" || period <= 0) return std::nullopt;
  const double thousandths = std::strtod(quota.c_str(), nullptr) / period * 1000;
  return static_cast<std::uint32_t>(std::clamp(thousandths, 1.0, kMostCpus * 1000.0));
}

std::uint64_t inode_of(const std::filesystem::path& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

/// CPUs that all control groups of `shares` grant together, in thousandths; none: no limit.
std::optional<std::uint64_t> granted(std::span<const CpuShare> shares) {
  std::map<std::uint64_t, std::uint32_t> groups;
  for (const CpuShare& share : shares) {
    if (share.quota.thousandths == 0) return std::nullopt;
    const auto [group, fresh] = groups.emplace(share.quota.group, share.quota.thousandths);
    group->second = std::min(group->second, share.quota.thousandths);
  }
  std::uint64_t sum = 0;
  for (const auto& [group, thousandths] : groups) sum += thousandths;
  return sum;
}

}  // namespace

CpuQuota read_cpu_quota(const std::filesystem::path& mount, const std::string& group) {
  CpuQuota tightest;
  std::filesystem::path below = std::filesystem::path(group).relative_path();
  for (;;) {
    const std::filesystem::path folder = mount / below;
    const auto limit = thousandths_of(folder / "cpu.max");
    if (limit && (tightest.thousandths == 0 || *limit < tightest.thousandths))
      tightest = {*limit, inode_of(folder)};
    if (below.empty()) return tightest;
    below = below.parent_path();
  }
}

CpuShare CpuShare::of_this_thread() {
  return {affinity_mask(), read_cpu_quota("/sys/fs/cgroup", own_control_group())};
}

int usable_cpus(std::span<const CpuShare> shares) {
  std::vector<std::uint64_t> together;
  for (const CpuShare& share : shares) {
    together.resize(std::max(together.size(), share.mask.size()), 0);
    for (std::size_t i = 0; i < share.mask.size(); ++i) together[i] |= share.mask[i];
  }
  std::uint64_t cpus = 0;
  for (const std::uint64_t word : together) cpus += static_cast<std::uint64_t>(std::popcount(word));
  if (!shares.empty())
    if (const auto limit = granted(shares)) cpus = std::min(cpus, *limit / 1000);
  return static_cast<int>(std::clamp<std::uint64_t>(cpus, 1, kMostCpus));
}

}  // namespace tutti
