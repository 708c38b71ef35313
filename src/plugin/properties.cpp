#include "src/plugin/properties.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/base/printable.hpp"
#include "src/base/result.hpp"

namespace tutti::plugin {
namespace {

constexpr std::size_t kLongestText = 4096;

/// Empty for null. Whatever it is, no more than kLongestText bytes of it are read.
std::string text_of_plugin(const char* text) {
  if (text == nullptr) return {};
  return without_controls({text, ::strnlen(text, kLongestText)});
}

Status check_numbers(const RawProperties& raw) {
  const auto negative = [](const char* what, double value) {
    return make_error(Code::kWrongData, "{} is {}", what, value);
  };
  if (raw.speed < 0) return negative("its speed", raw.speed);
  if (raw.port < 0) return negative("its port", raw.port);
  if (!(raw.latency >= 0) || std::isinf(raw.latency)) return negative("its latency", raw.latency);
  if (raw.max_comms <= 0) return negative("its number of comms", raw.max_comms);
  if (raw.max_receives <= 0) return negative("its number of grouped receives", raw.max_receives);
  if (raw.device_type < 0) return negative("its device type", raw.device_type);
  if (raw.max_p2p_bytes == 0 || raw.max_p2p_bytes > abi::kMostBytes)
    return make_error(Code::kWrongData, "its largest message has {} bytes", raw.max_p2p_bytes);
  if (raw.max_collective_bytes > abi::kMostBytes)
    return make_error(Code::kWrongData, "its largest collective has {} bytes",
                      raw.max_collective_bytes);
  return ok_status();
}

Status check_set(const RawProperties& raw, int count) {
  const int most = static_cast<int>(std::size(raw.devices.devices));
  if (raw.devices.count < 1 || raw.devices.count > most)
    return make_error(Code::kWrongData, "it consists of {} devices", raw.devices.count);
  for (int i = 0; i < raw.devices.count; ++i)
    if (raw.devices.devices[i] < 0 || raw.devices.devices[i] >= count)
      return make_error(Code::kWrongData, "it consists of device {}, of {}", raw.devices.devices[i],
                        count);
  return ok_status();
}

}  // namespace

Result<DeviceProperties> checked_properties(const RawProperties& raw, int device, int count) {
  const auto check = [&]() -> Status {
    if (raw.name == nullptr) return make_error(Code::kWrongData, "it has no name");
    TUTTI_TRY(check_numbers(raw));
    return check_set(raw, count);
  };
  if (Status well = check(); !well)
    return make_error(Code::kWrongData, "the properties of device {} are absurd: {}", device,
                      well.error().what);
  DeviceProperties to;
  to.name = text_of_plugin(raw.name);
  to.pci_path = text_of_plugin(raw.pci_path);
  to.guid = raw.guid;
  to.takes_host_memory = (raw.pointer_support & abi::kHostPointers) != 0;
  to.takes_cuda_memory = (raw.pointer_support & abi::kCudaPointers) != 0;
  to.takes_dma_bufs = (raw.pointer_support & abi::kDmaBufs) != 0;
  to.registers_for_all_comms = raw.registration_is_global != 0;
  to.needs_flush = raw.force_flush != 0;
  to.mbit_per_s = raw.speed;
  to.port = raw.port;
  to.latency_us = raw.latency;
  to.most_comms = raw.max_comms;
  to.most_receives = raw.max_receives;
  to.device_type = raw.device_type;
  to.physical_devices.assign(raw.devices.devices, raw.devices.devices + raw.devices.count);
  to.most_p2p_bytes = raw.max_p2p_bytes;
  to.most_collective_bytes = raw.max_collective_bytes;
  to.rail = raw.rail;
  to.plane = raw.plane;
  return to;
}

Result<std::vector<int>> fastest_devices(std::span<const DeviceProperties> devices,
                                         const std::string& who) {
  std::vector<int> best;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (!devices[i].takes_host_memory || devices[i].device_type != 0) continue;
    const int speed =
        best.empty() ? -1 : devices[static_cast<std::size_t>(best.front())].mbit_per_s;
    if (devices[i].mbit_per_s > speed) best.clear();
    if (devices[i].mbit_per_s >= speed) best.push_back(static_cast<int>(i));
  }
  if (best.empty())
    return make_error(Code::kUnsupported,
                      "{} has {} devices, none of which takes memory of the host without help of a "
                      "GPU's kernels",
                      who, devices.size());
  return best;
}

}  // namespace tutti::plugin
