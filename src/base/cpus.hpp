// The CPUs that a thread may use, and those that several have together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// More than any Linux kernel is built for.
inline constexpr std::size_t kMostCpus = 16384;

/// What a control group lets its processes use together.
struct CpuQuota {
  std::uint32_t thousandths = 0;  ///< of a CPU; 0: no limit
  std::uint64_t group = 0;  ///< tells the group with that limit from the others of its machine
  friend bool operator==(const CpuQuota&, const CpuQuota&) = default;
};

/// Value; means something to threads of the same machine only.
struct CpuShare {
  std::vector<std::uint64_t> mask;  ///< bit c % 64 of word c / 64: CPU c; empty: not known
  CpuQuota quota;
  friend bool operator==(const CpuShare&, const CpuShare&) = default;

  /// Affinity mask and control group of the calling thread.
  static CpuShare of_this_thread();
};

/// The tightest cpu.max between control group `group` ("/a/b") and the root of the version 2
/// hierarchy mounted at `mount`.
CpuQuota read_cpu_quota(const std::filesystem::path& mount, const std::string& group);

/// CPUs that the owners of `shares` have together, at least 1: their masks united, and no more than
/// their control groups grant. A thread bound to one core beside one bound to another makes two.
int usable_cpus(std::span<const CpuShare> shares);

}  // namespace tutti
