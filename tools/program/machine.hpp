// The CPUs and the memory that this process may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tutti::tools {

struct Machine {
  int cpus_online = 0;
  int cpus_allowed = 0;              ///< by the affinity mask
  std::optional<double> cpus_quota;  ///< by the control groups (v2); nullopt when unlimited
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_available_bytes = 0;
  std::optional<std::uint64_t> memory_limit_bytes;  ///< by the control groups (v2)
  std::string kernel;
};

Machine this_machine();

/// The first line of control-group v2's cpu.max ("200000 100000", "max 100000") as CPUs.
std::optional<double> parse_cpu_max(const std::string& line);

}  // namespace tutti::tools
