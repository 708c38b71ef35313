#include "src/cuda/driver.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "src/cuda/driver_entry_points.hpp"

namespace tutti::cuda {
namespace {

using abi::DeviceAttribute;
using abi::Return;

constexpr int kMostDevices = 1024;

std::string in_words(const abi::Functions& driver, Return returned) {
  const char* name = nullptr;
  const char* text = nullptr;
  driver.error_name(returned, &name);
  driver.error_string(returned, &text);
  return fmt::format("{} ({}), {}", name == nullptr ? "an error without a name" : name,
                     static_cast<unsigned>(returned), text == nullptr ? "no words" : text);
}

/// What the user can do about a driver that does not start.
std::string_view remedy_of(Return returned) {
  switch (returned) {
    case Return::kNoDevice:
      return "no GPU is visible: look at nvidia-smi and CUDA_VISIBLE_DEVICES";
    case Return::kSystemDriverMismatch:
      return "libcuda and the kernel module are of different releases: reload the module or reboot";
    case Return::kSystemNotReady:
      return "start nvidia-fabricmanager and what else this machine's GPUs need";
    case Return::kStubLibrary:
      return "this is the toolkit's stub: take its folder out of LD_LIBRARY_PATH";
    default:
      return "look at nvidia-smi: the driver may be too old for this GPU, or not loaded";
  }
}

/// "0000:07:00.0" of the driver's "0000:07:00.0" or "00000000:07:00.0", in small letters.
std::string linux_bus_id(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto colon = text.find(':');
  if (colon == 8 && text.starts_with("0000")) text.erase(0, 4);
  return text;
}

}  // namespace

Result<SharedDriver> Driver::open(const char* library) {
  TUTTI_ASSIGN(const abi::Functions functions, find_entry_points(library));
  const auto started = [&](Return returned, std::string_view doing) -> Status {
    if (returned == Return::kSuccess) return ok_status();
    return make_error(Code::kUnavailable, "{}: {} failed: {}; {}", library, doing,
                      in_words(functions, returned), remedy_of(returned));
  };
  TUTTI_TRY(started(functions.init(0), "cuInit"));
  int version = 0;
  int devices = 0;
  TUTTI_TRY(started(functions.driver_version(&version), "cuDriverGetVersion"));
  TUTTI_TRY(started(functions.device_count(&devices), "cuDeviceGetCount"));
  if (devices <= 0) TUTTI_TRY(started(Return::kNoDevice, "looking for a device"));
  return SharedDriver(new Driver(functions, version, std::min(devices, kMostDevices)));
}

Driver::Driver(const abi::Functions& functions, int version, int devices)
    : functions_(functions), version_(version), contexts_(devices, nullptr) {}

Driver::~Driver() {
  for (int device = 0; device < device_count(); ++device)
    if (contexts_[device] != nullptr) functions_.primary_context_release(device);
}

Error Driver::failure(Return returned, std::string_view doing) const {
  const Code code = returned == Return::kNotSupported  ? Code::kUnsupported
                    : returned == Return::kOutOfMemory ? Code::kUnavailable
                                                       : Code::kDevice;
  return make_error(code, "{} failed: {}", doing, in_words(functions_, returned));
}

Error Driver::lacks(std::string_view entry_point, std::string_view release) const {
  return make_error(Code::kUnsupported,
                    "the CUDA driver lacks {}: it is of CUDA {}.{}, and {} has it; install a newer "
                    "driver",
                    entry_point, version_ / 1000, version_ % 1000 / 10, release);
}

Status Driver::check_ordinal(int device) const {
  if (device >= 0 && device < device_count()) return ok_status();
  return make_error(Code::kInvalidArgument, "there is no CUDA device {}: this process sees {}",
                    device, device_count());
}

Result<DeviceFacts> Driver::device(int ordinal) const {
  TUTTI_TRY(check_ordinal(ordinal));
  abi::Device device = 0;
  TUTTI_TRY(check(functions_.device(&device, ordinal), "cuDeviceGet of device {}", ordinal));
  DeviceFacts facts;
  facts.ordinal = ordinal;
  std::array<char, 256> text{};
  const auto bytes = static_cast<int>(text.size() - 1);
  TUTTI_TRY(check(functions_.device_name(text.data(), bytes, device),
                  "cuDeviceGetName of device {}", ordinal));
  facts.name = text.data();
  text.fill('\0');
  TUTTI_TRY(check(functions_.device_bus_id(text.data(), bytes, device),
                  "cuDeviceGetPCIBusId of device {}", ordinal));
  facts.bus_id = linux_bus_id(text.data());
  abi::Uuid uuid{};
  TUTTI_TRY(check(functions_.device_uuid(&uuid, device), "cuDeviceGetUuid of device {}", ordinal));
  for (const char byte : uuid.bytes)
    facts.uuid += fmt::format("{:02x}", static_cast<unsigned char>(byte));

  const auto attribute = [&](DeviceAttribute which) {
    int value = 0;  // an attribute that an older driver does not know counts as absent
    return functions_.device_attribute(&value, which, device) == Return::kSuccess ? value : 0;
  };
  facts.compute_major = attribute(DeviceAttribute::kComputeMajor);
  facts.compute_minor = attribute(DeviceAttribute::kComputeMinor);
  facts.multiprocessors = attribute(DeviceAttribute::kMultiprocessors);
  facts.async_engines = attribute(DeviceAttribute::kAsyncEngines);
  facts.max_shared_bytes_per_block = attribute(DeviceAttribute::kMaxSharedBytesPerBlockOptIn);
  facts.host_register = attribute(DeviceAttribute::kHostRegister) != 0;
  facts.registered_at_host_address = attribute(DeviceAttribute::kRegisteredAtHostAddress) != 0;
  facts.pageable_access = attribute(DeviceAttribute::kPageableMemoryAccess) != 0;
  facts.cooperative_launch = attribute(DeviceAttribute::kCooperativeLaunch) != 0;
  facts.stream_values =
      functions_.stream_wait_value != nullptr && functions_.stream_write_value != nullptr;
  facts.memory_handles = functions_.allocation_create != nullptr &&
                         attribute(DeviceAttribute::kVirtualMemoryManagement) != 0;
  facts.posix_fd_handles = facts.memory_handles && attribute(DeviceAttribute::kPosixFdHandles) != 0;
  facts.fabric_handles = facts.memory_handles && attribute(DeviceAttribute::kFabricHandles) != 0;
  facts.dma_buf = functions_.range_handle != nullptr && attribute(DeviceAttribute::kDmaBuf) != 0;
  facts.rdma_of_handles = attribute(DeviceAttribute::kRdmaOfHandles) != 0;
  facts.orders_rdma_writes =
      attribute(DeviceAttribute::kRdmaWritesOrdering) >= abi::kRdmaWritesOrderedForOwner;
  return facts;
}

Result<bool> Driver::can_access_peer(int device, int peer) const {
  TUTTI_TRY(check_ordinal(device));
  TUTTI_TRY(check_ordinal(peer));
  int can = 0;
  TUTTI_TRY(check(functions_.device_can_access_peer(&can, device, peer),
                  "cuDeviceCanAccessPeer of device {} to device {}", device, peer));
  return can != 0;
}

Status Driver::enable_peer_access(int device, int peer) const {
  TUTTI_ASSIGN(abi::Context to, primary_context(peer));
  TUTTI_ASSIGN(const ContextScope scope, make_current(device));
  const Return returned = functions_.context_enable_peer_access(to, 0);
  if (returned == Return::kPeerAccessAlreadyEnabled) return ok_status();
  return check(returned, "cuCtxEnablePeerAccess of device {} to device {}", device, peer);
}

Result<abi::Context> Driver::primary_context(int device) const {
  TUTTI_TRY(check_ordinal(device));
  const std::scoped_lock lock(mutex_);
  abi::Context& context = contexts_[device];
  if (context == nullptr)
    TUTTI_TRY(check(functions_.primary_context_retain(&context, device),
                    "cuDevicePrimaryCtxRetain of device {}", device));
  return context;
}

Result<int> Driver::current_device() const {
  abi::Context context = nullptr;
  TUTTI_TRY(check(functions_.context_current(&context), "cuCtxGetCurrent"));
  if (context == nullptr) {
    TUTTI_ASSIGN(context, primary_context(0));
    TUTTI_TRY(check(functions_.context_set_current(context), "cuCtxSetCurrent to device 0"));
  }
  abi::Device device = 0;
  TUTTI_TRY(check(functions_.context_device(&device), "cuCtxGetDevice"));
  return device;
}

Result<ContextScope> Driver::make_current(int device) const {
  TUTTI_ASSIGN(abi::Context context, primary_context(device));
  abi::Context before = nullptr;
  TUTTI_TRY(check(functions_.context_current(&before), "cuCtxGetCurrent"));
  if (before == context) return ContextScope(nullptr, nullptr);
  TUTTI_TRY(check(functions_.context_set_current(context), "cuCtxSetCurrent to device {}", device));
  return ContextScope(this, before);
}

}  // namespace tutti::cuda
