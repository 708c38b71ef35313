// The CPUs that one thread, or several threads together, may use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// More than any Linux kernel is built for.
inline constexpr std::size_t kMostCpus = 16384;

/// CPU time that a control group grants to all its processes together.
struct CpuQuota {
  std::uint32_t thousandths = 0;  ///< thousandths of a CPU; 0: no limit
  std::uint64_t group = 0;        ///< identifies the limiting group within its machine
  friend bool operator==(const CpuQuota&, const CpuQuota&) = default;
};

/// Value. Only comparable between threads of one machine.
struct CpuShare {
  std::vector<std::uint64_t> mask;  ///< CPU c is bit c % 64 of word c / 64; empty: unknown
  CpuQuota quota;
  friend bool operator==(const CpuShare&, const CpuShare&) = default;

  /// Affinity mask and control group of the calling thread.
  static CpuShare of_this_thread();
};

/// The tightest cpu.max between control group `group` ("/a/b") and the root of the version 2
/// hierarchy that is mounted at `mount`.
CpuQuota read_cpu_quota(const std::filesystem::path& mount, const std::string& group);

/// Number of CPUs that the owners of `shares` have together, at least 1: the union of their masks,
/// limited by their control groups. Two threads, each bound to a core of its own, have two.
int usable_cpus(std::span<const CpuShare> shares);

}  // namespace tutti
