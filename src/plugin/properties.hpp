// What a plugin says of a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/plugin/abi.hpp"
#include "tutti/error.hpp"

namespace tutti::plugin {

/// In the newest form, as it came: nothing in it is checked, and its texts are the plugin's.
using RawProperties = abi::Properties<abi::kNewest>;

struct DeviceProperties {
  std::string name;
  std::string pci_path;  ///< in /sys; empty: none
  std::uint64_t guid = 0;
  bool takes_host_memory = false;
  bool takes_cuda_memory = false;
  bool takes_dma_bufs = false;
  bool registers_for_all_comms = false;
  bool needs_flush = false;  ///< after each receive into memory of a GPU, whatever the platform
  int mbit_per_s = 0;        ///< 0: unknown
  int port = 0;
  float latency_us = 0;
  int most_comms = 0;
  int most_receives = 1;  ///< parts of a grouped receive
  /// 0: the host drives it. Others want code in GPU kernels, which Tutti does not have.
  int device_type = 0;
  std::vector<int> physical_devices;
  std::size_t most_p2p_bytes = 0;
  std::size_t most_collective_bytes = 0;
  int rail = abi::kUndefined;
  int plane = abi::kUndefined;
};

/// What a version does not say, filled in: `device` is this device's number.
template <int kVersion>
RawProperties newest_form(const abi::Properties<kVersion>& from, int device);

/// kWrongData says what is absurd. `count`: the number of devices.
Result<DeviceProperties> checked_properties(const RawProperties& raw, int device, int count);

/// The numbers of the fastest devices that the host can drive with its own memory; at least one.
/// kUnsupported, with the name of the plugin, if there is none.
Result<std::vector<int>> fastest_devices(std::span<const DeviceProperties> devices,
                                         const std::string& who);

// --- implementation ---

template <int kVersion>
RawProperties newest_form(const abi::Properties<kVersion>& from, int device) {
  RawProperties to{};
  to.name = from.name;
  to.pci_path = from.pci_path;
  to.guid = from.guid;
  to.pointer_support = from.pointer_support;
  to.speed = from.speed;
  to.port = from.port;
  to.latency = from.latency;
  to.max_comms = from.max_comms;
  to.max_receives = from.max_receives;
  if constexpr (kVersion >= 7) {
    to.device_type = from.device_type;
    to.device_version = from.device_version;
  }
  if constexpr (kVersion >= 8) to.registration_is_global = from.registration_is_global;
  if constexpr (kVersion >= 9) {
    to.force_flush = from.force_flush;
    to.devices.count = from.devices.count;
    for (std::size_t i = 0; i < std::size(from.devices.devices); ++i)
      to.devices.devices[i] = from.devices.devices[i];
    // More than this version has room for is as absurd as more than the newest one has.
    if (from.devices.count > static_cast<int>(std::size(from.devices.devices)))
      to.devices.count = abi::kUndefined;
    to.max_p2p_bytes = from.max_p2p_bytes;
    to.max_collective_bytes = from.max_collective_bytes;
  } else {
    to.devices.count = 1;
    to.devices.devices[0] = device;
    to.max_p2p_bytes = abi::kOldMostP2pBytes;
    to.max_collective_bytes = abi::kOldMostCollectiveBytes;
  }
  to.max_multi_requests = 1;
  if constexpr (kVersion >= 11) to.max_multi_requests = from.max_multi_requests;
  to.rail = to.plane = abi::kUndefined;
  if constexpr (kVersion >= 12) {
    to.rail = from.rail;
    to.plane = from.plane;
  }
  return to;
}

}  // namespace tutti::plugin
