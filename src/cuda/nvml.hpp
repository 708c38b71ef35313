// What NVIDIA's management library (NVML) says of the GPUs of this machine. The library comes with
// the driver and is opened at run time, so that one binary runs where there is none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tutti/error.hpp"

namespace tutti::cuda {

/// What stands at the other end of an NVLink.
enum class NvlinkEnd : std::uint8_t { kGpu, kSwitch, kCpu, kUnknown };

/// The active NVLinks from one GPU to one other end.
struct NvlinkBundle {
  NvlinkEnd end = NvlinkEnd::kUnknown;
  std::string bus_id;       ///< of the other end, as GpuFacts::bus_id; "" where it is not told
  std::uint32_t links = 0;  ///< how many, at least 1
  friend bool operator==(const NvlinkBundle&, const NvlinkBundle&) = default;
};

/// GPUs of equal cluster and clique reach each other by NVLink, also from host to host.
struct NvlinkFabric {
  std::string cluster;  ///< 32 hexadecimal digits, not all of them 0
  std::uint32_t clique = 0;
  friend bool operator==(const NvlinkFabric&, const NvlinkFabric&) = default;
};

struct GpuFacts {
  std::string bus_id;  ///< as Linux writes it: "0000:07:00.0", in small letters
  std::string name;
  int compute_major = 0;  ///< compute capability; 0: not told
  int compute_minor = 0;
  std::vector<NvlinkBundle> nvlinks;  ///< in the order of their first links
  double c2c_mb_per_s = 0;  ///< all chip-to-chip links together, one way; 0: there are none
  std::optional<NvlinkFabric> fabric;
  friend bool operator==(const GpuFacts&, const GpuFacts&) = default;
};

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

/// The GPUs in NVML's order. What a GPU or an older driver does not answer is left at its default.
/// kUnsupported where `library` cannot be opened or lacks an entry point, kUnavailable where NVML
/// does not start or cannot list the GPUs, with its words.
Result<std::vector<GpuFacts>> read_gpus(const char* library = kNvmlLibrary);

}  // namespace tutti::cuda
