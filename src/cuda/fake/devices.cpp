// Devices, their primary contexts, and the words of errors.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "src/cuda/fake/fake.hpp"

namespace fake_cuda {
namespace {

thread_local CUctx_st* current = nullptr;

Return find_device(int device, CUctx_st*& found) {
  if (!state().initialised) return Return::kNotInitialized;
  if (device < 0 || device >= static_cast<int>(state().devices.size()))
    return Return::kInvalidDevice;
  found = state().devices[device].get();
  return Return::kSuccess;
}

void add_devices() {
  const long devices = setting("FAKE_CUDA_DEVICES", 1);
  for (long device = 0; device < devices; ++device) {
    auto context = std::make_unique<CUctx_st>();
    context->device = static_cast<int>(device);
    state().devices.push_back(std::move(context));
  }
}

/// As many channels as are asked for now. Old ones stay: their threads have no end.
void set_channels(CUctx_st& context) {
  static auto* const retired = new std::vector<std::unique_ptr<Channel>>;
  std::ranges::move(context.channels, std::back_inserter(*retired));
  context.channels.clear();
  context.next_channel = 0;
  const long channels = std::max(setting("FAKE_CUDA_CHANNELS", 4), 1L);
  for (long channel = 0; channel < channels; ++channel)
    context.channels.push_back(std::make_unique<Channel>());
}

struct Words {
  Return error;
  const char* name;
  const char* text;
};
// In words of our own: the driver's differ from release to release.
constexpr Words kWords[] = {
    {Return::kSuccess, "CUDA_SUCCESS", "no error"},
    {Return::kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {Return::kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {Return::kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {Return::kDeinitialized, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {Return::kStubLibrary, "CUDA_ERROR_STUB_LIBRARY", "the library is a stub"},
    {Return::kNoDevice, "CUDA_ERROR_NO_DEVICE", "no device is detected"},
    {Return::kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {Return::kInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {Return::kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {Return::kMapFailed, "CUDA_ERROR_MAP_FAILED", "mapping failed"},
    {Return::kPeerAccessUnsupported, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {Return::kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {Return::kIllegalState, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed now"},
    {Return::kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {Return::kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {Return::kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access"},
    {Return::kPeerAccessAlreadyEnabled, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
     "peer access is already enabled"},
    {Return::kContextIsDestroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {Return::kHostMemoryAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {Return::kHostMemoryNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {Return::kCooperativeLaunchTooLarge, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
     "too many blocks in cooperative launch"},
    {Return::kNotPermitted, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {Return::kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {Return::kSystemNotReady, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {Return::kSystemDriverMismatch, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "unsupported combination of display driver and CUDA driver"},
    {Return::kStreamCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {Return::kStreamCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {Return::kStreamCaptureMerge, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
     "operation would result in a merge of separate capture sequences"},
    {Return::kStreamCaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {Return::kStreamCaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "capturing stream has unjoined work"},
    {Return::kStreamCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {Return::kStreamCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {Return::kCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {Return::kStreamCaptureWrongThread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {Return::kUnknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const Words* words_of(Return error) {
  const auto* const found =
      std::ranges::find_if(kWords, [=](const Words& words) { return words.error == error; });
  return found == std::end(kWords) ? nullptr : found;
}

int attribute_of(DeviceAttribute attribute) {
  switch (attribute) {
    case DeviceAttribute::kMaxSharedBytesPerBlock:
      return kSharedBytesPerBlock;
    case DeviceAttribute::kMultiprocessors:
      return kMultiprocessors;
    case DeviceAttribute::kMaxThreadsPerMultiprocessor:
      return kThreadsPerMultiprocessor;
    case DeviceAttribute::kAsyncEngines:
      return 3;
    case DeviceAttribute::kComputeMajor:
      return 9;
    case DeviceAttribute::kMaxSharedBytesPerBlockOptIn:
      return kSharedBytesPerBlockOptIn;
    case DeviceAttribute::kRegisteredAtHostAddress:
    case DeviceAttribute::kCooperativeLaunch:
    case DeviceAttribute::kHostRegister:
    case DeviceAttribute::kVirtualMemoryManagement:
    case DeviceAttribute::kPosixFdHandles:
    case DeviceAttribute::kStreamMemoryOperations64:
    case DeviceAttribute::kRdmaOfHandles:
      return 1;
    case DeviceAttribute::kDmaBuf:
      return setting("FAKE_CUDA_DMA_BUF", 1) != 0 ? 1 : 0;
    case DeviceAttribute::kRdmaWritesOrdering:
      return setting("FAKE_CUDA_ORDERED", 0) != 0 ? kRdmaWritesOrderedForOwner : 0;
    case DeviceAttribute::kFabricHandles:
      return setting("FAKE_CUDA_FABRIC", 0) != 0 ? 1 : 0;
    case DeviceAttribute::kComputeMinor:
    case DeviceAttribute::kPageableMemoryAccess:
      return 0;
  }
  return -1;
}

}  // namespace

State& state() {
  static auto* const instance = new State;  // never destroyed: threads outlive main
  return *instance;
}

Return current_context(CUctx_st*& context) {
  if (!state().initialised) return Return::kNotInitialized;
  if (current == nullptr) return Return::kInvalidContext;
  if (current->references == 0) return Return::kContextIsDestroyed;
  context = current;
  return context->broken;
}

}  // namespace fake_cuda

using namespace fake_cuda;

FAKE_CUDA_EXPORT Return cuInit(unsigned flags) {
  FAKE_CUDA_TRY(enter(__func__));
  if (flags != 0) return Return::kInvalidValue;
  const std::scoped_lock lock(state().mutex);
  if (state().devices.empty()) add_devices();
  if (state().devices.empty()) return Return::kNoDevice;
  state().initialised = true;
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuDriverGetVersion(int* version) {
  FAKE_CUDA_TRY(enter(__func__));
  *version = static_cast<int>(setting("FAKE_CUDA_VERSION", 13000));
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuGetErrorName(Return error, const char** name) {
  const Words* const words = words_of(error);
  *name = words == nullptr ? nullptr : words->name;
  return words == nullptr ? Return::kInvalidValue : Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuGetErrorString(Return error, const char** text) {
  const Words* const words = words_of(error);
  *text = words == nullptr ? nullptr : words->text;
  return words == nullptr ? Return::kInvalidValue : Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuDeviceGetCount(int* count) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  if (!state().initialised) return Return::kNotInitialized;
  *count = static_cast<int>(state().devices.size());
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuDeviceGet(Device* device, int ordinal) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUctx_st* found = nullptr;
  FAKE_CUDA_TRY(find_device(ordinal, found));
  *device = ordinal;
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuDeviceGetName(char* name, int bytes, Device device) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUctx_st* found = nullptr;
  FAKE_CUDA_TRY(find_device(device, found));
  std::snprintf(name, bytes, "Fake GPU");
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuDeviceGetUuid_v2(Uuid* uuid, Device device) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUctx_st* found = nullptr;
  FAKE_CUDA_TRY(find_device(device, found));
  std::memset(uuid, 0xfa, sizeof *uuid);
  uuid->bytes[15] = static_cast<char>(device);
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuDeviceGetUuid(Uuid* uuid, Device device) {
  return cuDeviceGetUuid_v2(uuid, device);
}

FAKE_CUDA_EXPORT Return cuDeviceGetPCIBusId(char* text, int bytes, Device device) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUctx_st* found = nullptr;
  FAKE_CUDA_TRY(find_device(device, found));
  std::snprintf(text, bytes, "0000:%02X:00.0", 0xA0 + device);
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuDeviceGetAttribute(int* value, DeviceAttribute attribute, Device device) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUctx_st* found = nullptr;
  FAKE_CUDA_TRY(find_device(device, found));
  const int answer = attribute_of(attribute);
  if (answer < 0) return Return::kInvalidValue;
  *value = answer;
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuDeviceCanAccessPeer(int* can, Device device, Device peer) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUctx_st* found = nullptr;
  for (const Device one : {device, peer}) FAKE_CUDA_TRY(find_device(one, found));
  *can = device != peer && peers() != Peers::kNotReached ? 1 : 0;
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuCtxGetCurrent(Context* context) {
  FAKE_CUDA_TRY(enter(__func__));
  *context = current;
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuCtxSetCurrent(Context context) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  const bool is_one = std::ranges::any_of(
      state().devices, [=](const auto& device) { return device.get() == context; });
  if (context != nullptr && (!is_one || context->references == 0)) return Return::kInvalidContext;
  current = context;
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuCtxGetDevice(Device* device) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUctx_st* context = nullptr;
  FAKE_CUDA_TRY(current_context(context));
  *device = context->device;
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuCtxEnablePeerAccess(Context peer, unsigned flags) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUctx_st* context = nullptr;
  FAKE_CUDA_TRY(current_context(context));
  if (flags != 0) return Return::kInvalidValue;
  if (peer == nullptr || peer == context || peer->references == 0) return Return::kInvalidContext;
  return context->peers.insert(peer->device).second ? Return::kSuccess
                                                    : Return::kPeerAccessAlreadyEnabled;
}

FAKE_CUDA_EXPORT Return cuDevicePrimaryCtxRetain(Context* context, Device device) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUctx_st* found = nullptr;
  FAKE_CUDA_TRY(find_device(device, found));
  if (found->references++ == 0) set_channels(*found);
  *context = found;
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuDevicePrimaryCtxRelease_v2(Device device) {
  FAKE_CUDA_TRY(enter(__func__));
  CUctx_st* context = nullptr;
  std::vector<Done> pending;
  {
    const std::scoped_lock lock(state().mutex);
    FAKE_CUDA_TRY(find_device(device, context));
    if (context->references == 0) return Return::kInvalidContext;
    if (--context->references > 0) return Return::kSuccess;
    context->broken = Return::kContextIsDestroyed;  // ends what waits
    pending = pending_of(*context);
  }
  for (const Done& done : pending) await(done);
  const std::scoped_lock lock(state().mutex);
  forget_streams_of(*context);
  forget_memory_of(*context);
  context->peers.clear();
  context->broken = Return::kSuccess;
  return Return::kSuccess;
}
