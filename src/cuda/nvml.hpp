// What NVIDIA's management library (NVML) reports about this machine's GPUs. The library comes with
// the driver. It is opened at run time, so one binary also runs where there is none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tutti/error.hpp"

namespace tutti::cuda {

/// The device at the other end of an NVLink.
enum class NvlinkEnd : std::uint8_t { kGpu, kSwitch, kCpu, kUnknown };

/// The active NVLinks from one GPU to one other device.
struct NvlinkBundle {
  NvlinkEnd end = NvlinkEnd::kUnknown;
  std::string bus_id;       ///< of the other end, as GpuFacts::bus_id; "" if unknown
  std::uint32_t links = 0;  ///< number of links, at least 1
  friend bool operator==(const NvlinkBundle&, const NvlinkBundle&) = default;
};

/// GPUs with equal cluster and clique reach each other by NVLink, also between hosts.
struct NvlinkFabric {
  std::string cluster;  ///< 32 hexadecimal digits, not all of them 0
  std::uint32_t clique = 0;
  friend bool operator==(const NvlinkFabric&, const NvlinkFabric&) = default;
};

struct GpuFacts {
  std::string bus_id;  ///< as Linux writes it: "0000:07:00.0", in lower case
  std::string name;
  int compute_major = 0;  ///< compute capability; 0: unknown
  int compute_minor = 0;
  std::vector<NvlinkBundle> nvlinks;  ///< in the order of their first links
  double c2c_mb_per_s = 0;            ///< all chip-to-chip links together, one way; 0: none
  std::optional<NvlinkFabric> fabric;
  friend bool operator==(const GpuFacts&, const GpuFacts&) = default;
};

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

/// The GPUs in NVML's order. Fields that a GPU or an older driver does not report keep their
/// default. kUnsupported if `library` cannot be opened or lacks an entry point. kUnavailable, with
/// NVML's text, if NVML does not start or cannot list the GPUs.
Result<std::vector<GpuFacts>> read_gpus(const char* library = kNvmlLibrary);

}  // namespace tutti::cuda
