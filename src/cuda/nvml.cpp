#include "src/cuda/nvml.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>

#include <dlfcn.h>

#include "src/base/result.hpp"
#include "src/cuda/nvml_abi.hpp"

namespace tutti::cuda {
namespace {

using nvml_abi::Functions;
constexpr unsigned kMostGpus = 1024;

struct CloseLibrary {
  void operator()(void* library) const { ::dlclose(library); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

Result<Library> open(const char* name) {
  Library library(::dlopen(name, RTLD_NOW | RTLD_LOCAL));
  if (library) return library;
  const char* const why = ::dlerror();  // NOLINT(concurrency-mt-unsafe): glibc keeps one a thread
  return make_error(Code::kUnsupported, "cannot open {}: {}; it comes with NVIDIA's driver", name,
                    why == nullptr ? "no reason was given" : why);
}

/// Whether `entry` was found.
template <class Entry>
bool load(void* library, const char* name, Entry& entry) {
  entry = reinterpret_cast<Entry>(::dlsym(library, name));
  return entry != nullptr;
}

Result<Functions> entry_points(void* library, const char* name) {
  Functions nvml;
  const bool complete =
      load(library, "nvmlInit_v2", nvml.init) && load(library, "nvmlShutdown", nvml.shutdown) &&
      load(library, "nvmlErrorString", nvml.error_string) &&
      load(library, "nvmlDeviceGetCount_v2", nvml.device_count) &&
      load(library, "nvmlDeviceGetHandleByIndex_v2", nvml.device) &&
      load(library, "nvmlDeviceGetPciInfo_v3", nvml.pci_info) &&
      load(library, "nvmlDeviceGetName", nvml.name) &&
      load(library, "nvmlDeviceGetCudaComputeCapability", nvml.compute_capability);
  if (!complete)
    return make_error(Code::kUnsupported,
                      "{} lacks an entry point: a driver of release 450 or later has them", name);
  load(library, "nvmlDeviceGetNvLinkState", nvml.nvlink_state);
  load(library, "nvmlDeviceGetNvLinkRemotePciInfo_v2", nvml.nvlink_remote);
  load(library, "nvmlDeviceGetNvLinkRemoteDeviceType", nvml.nvlink_remote_type);
  load(library, "nvmlDeviceGetFieldValues", nvml.field_values);
  load(library, "nvmlDeviceGetGpuFabricInfo", nvml.fabric);
  return nvml;
}

Status check(const Functions& nvml, nvml_abi::Return result, std::string_view doing) {
  if (result == nvml_abi::kSuccess) return ok_status();
  const char* const words = nvml.error_string(result);
  return make_error(Code::kUnavailable, "NVML failed at {}: {} ({})", doing,
                    words == nullptr ? "no words" : words, result);
}

/// "00000000:07:00.0" as Linux writes it. The domain has more than four digits on some machines.
std::string linux_bus_id(const nvml_abi::PciInfo& info) {
  const std::span<const char> bytes(info.bus_id);
  const std::string_view id(bytes.data(), std::ranges::find(bytes, '\0') - bytes.begin());
  const auto dot = id.rfind('.');
  return fmt::format("{:04x}:{:02x}:{:02x}.{}", info.domain, info.bus, info.device,
                     dot == id.npos ? "0" : id.substr(dot + 1));
}

NvlinkEnd other_end(const Functions& nvml, nvml_abi::Device device, unsigned link) {
  int type = -1;
  if (nvml.nvlink_remote_type == nullptr ||
      nvml.nvlink_remote_type(device, link, &type) != nvml_abi::kSuccess)
    return NvlinkEnd::kUnknown;
  switch (type) {
    case nvml_abi::kRemoteGpu:
      return NvlinkEnd::kGpu;
    case nvml_abi::kRemoteCpu:
      return NvlinkEnd::kCpu;
    case nvml_abi::kRemoteSwitch:
      return NvlinkEnd::kSwitch;
    default:
      return NvlinkEnd::kUnknown;
  }
}

std::vector<NvlinkBundle> nvlinks(const Functions& nvml, nvml_abi::Device device) {
  std::vector<NvlinkBundle> bundles;
  if (nvml.nvlink_state == nullptr || nvml.nvlink_remote == nullptr) return bundles;
  for (unsigned link = 0; link < nvml_abi::kMostNvlinks; ++link) {
    int enabled = 0;
    if (nvml.nvlink_state(device, link, &enabled) != nvml_abi::kSuccess || enabled == 0) continue;
    NvlinkBundle bundle{.end = other_end(nvml, device, link), .bus_id = "", .links = 1};
    nvml_abi::PciInfo remote{};
    if (nvml.nvlink_remote(device, link, &remote) == nvml_abi::kSuccess)
      bundle.bus_id = linux_bus_id(remote);
    const auto same = std::ranges::find_if(bundles, [&](const NvlinkBundle& other) {
      return other.end == bundle.end && other.bus_id == bundle.bus_id;
    });
    if (same == bundles.end())
      bundles.push_back(std::move(bundle));
    else
      ++same->links;
  }
  return bundles;
}

double c2c_mb_per_s(const Functions& nvml, nvml_abi::Device device) {
  if (nvml.field_values == nullptr) return 0;
  const auto ask = [&](unsigned field, unsigned link) -> unsigned {
    nvml_abi::FieldValue value{};
    value.field = field;
    value.scope = link;
    const bool told = nvml.field_values(device, 1, &value) == nvml_abi::kSuccess &&
                      value.result == nvml_abi::kSuccess;
    return told ? value.value.unsigned_int : 0;
  };
  double sum = 0;
  const unsigned links = std::min(ask(nvml_abi::kC2cLinkCount, 0), 64U);
  for (unsigned link = 0; link < links; ++link)
    if (ask(nvml_abi::kC2cLinkStatus, link) == 1) sum += ask(nvml_abi::kC2cLinkMaxMbPerS, link);
  return sum;
}

std::optional<NvlinkFabric> fabric(const Functions& nvml, nvml_abi::Device device) {
  nvml_abi::FabricInfo info{};
  if (nvml.fabric == nullptr || nvml.fabric(device, &info) != nvml_abi::kSuccess)
    return std::nullopt;
  const std::span<const unsigned char> cluster(info.cluster);
  if (info.state != nvml_abi::kFabricCompleted || info.status != nvml_abi::kSuccess ||
      std::ranges::all_of(cluster, [](unsigned char byte) { return byte == 0; }))
    return std::nullopt;
  NvlinkFabric found{.cluster = "", .clique = info.clique};
  for (const unsigned char byte : cluster) found.cluster += fmt::format("{:02x}", byte);
  return found;
}

Result<GpuFacts> facts(const Functions& nvml, unsigned index) {
  nvml_abi::Device device = nullptr;
  TUTTI_TRY(check(nvml, nvml.device(index, &device), fmt::format("opening GPU {}", index)));
  nvml_abi::PciInfo pci{};
  TUTTI_TRY(check(nvml, nvml.pci_info(device, &pci), fmt::format("locating GPU {}", index)));
  GpuFacts gpu;
  gpu.bus_id = linux_bus_id(pci);
  std::array<char, 128> name{};
  if (nvml.name(device, name.data(), name.size() - 1) == nvml_abi::kSuccess) gpu.name = name.data();
  if (nvml.compute_capability(device, &gpu.compute_major, &gpu.compute_minor) != nvml_abi::kSuccess)
    gpu.compute_major = gpu.compute_minor = 0;
  gpu.nvlinks = nvlinks(nvml, device);
  gpu.c2c_mb_per_s = c2c_mb_per_s(nvml, device);
  gpu.fabric = fabric(nvml, device);
  return gpu;
}

Result<std::vector<GpuFacts>> all_facts(const Functions& nvml) {
  unsigned count = 0;
  TUTTI_TRY(check(nvml, nvml.device_count(&count), "counting GPUs"));
  std::vector<GpuFacts> gpus;
  for (unsigned index = 0; index < std::min(count, kMostGpus); ++index) {
    TUTTI_ASSIGN(GpuFacts gpu, facts(nvml, index));
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

}  // namespace

Result<std::vector<GpuFacts>> read_gpus(const char* library) {
  TUTTI_ASSIGN(const Library handle, open(library));
  TUTTI_ASSIGN(const Functions nvml, entry_points(handle.get(), library));
  TUTTI_TRY(check(nvml, nvml.init(), "its start"));
  auto gpus = all_facts(nvml);
  nvml.shutdown();  // counts calls, so others in this process keep their NVML
  return gpus;
}

}  // namespace tutti::cuda
