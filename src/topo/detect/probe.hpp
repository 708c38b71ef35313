// The few questions that detection asks the system. Every answer is plain data, so a recorded
// machine (recorded.hpp) can answer in its place.
#pragma once

#include <string>
#include <vector>

#include "src/cuda/nvml.hpp"
#include "tutti/error.hpp"

namespace tutti::topo {

/// A resource. Paths are absolute, as on the system itself; every error is one sentence that names
/// the path or library and why it gave no answer.
class SystemProbe {
 public:
  SystemProbe() = default;
  SystemProbe(const SystemProbe&) = delete;
  SystemProbe& operator=(const SystemProbe&) = delete;
  virtual ~SystemProbe() = default;

  /// What a regular file holds; of one longer than 1 MiB the beginning.
  virtual Result<std::string> read_file(const std::string& path) = 0;
  /// The names in a directory, ascending, without "." and "..".
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
  /// What a symbolic link says, not resolved.
  virtual Result<std::string> link_target(const std::string& path) = 0;
  /// Processors and memory as hwloc 2 writes them in XML; devices need not be in it.
  virtual Result<std::string> hwloc_xml() = 0;
  /// The NVIDIA GPUs, as src/cuda/nvml.hpp says.
  virtual Result<std::vector<cuda::GpuFacts>> gpus() = 0;
};

/// This machine. hwloc and NVML are opened when they are asked for, and closed again.
class RealProbe : public SystemProbe {
 public:
  Result<std::string> read_file(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  Result<std::string> link_target(const std::string& path) override;
  Result<std::string> hwloc_xml() override;
  Result<std::vector<cuda::GpuFacts>> gpus() override;
};

/// This machine as /proc and /sys tell it: within a millisecond, and nothing is loaded into the
/// process. hwloc, which takes several, and NVML, which wakes the GPUs, are not asked.
class FilesProbe final : public RealProbe {
 public:
  Result<std::string> hwloc_xml() override;
  Result<std::vector<cuda::GpuFacts>> gpus() override;
};

}  // namespace tutti::topo
