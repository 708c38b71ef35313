#include "src/cuda/driver_entry_points.hpp"

#include <dlfcn.h>

#include "src/base/result.hpp"

namespace tutti::cuda {
namespace {

/// Fills entry points and remembers the first that is missing.
class Finder {
 public:
  explicit Finder(void* library) : library_(library) {}

  template <class Entry>
  void need(const char* name, Entry& entry) {
    if (!take(name, entry) && missing_ == nullptr) missing_ = name;
  }
  template <class Entry>
  bool take(const char* name, Entry& entry) {
    entry = reinterpret_cast<Entry>(::dlsym(library_, name));
    return entry != nullptr;
  }
  [[nodiscard]] const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

void find_devices(Finder& find, abi::Functions& driver) {
  find.need("cuInit", driver.init);
  find.need("cuDriverGetVersion", driver.driver_version);
  find.need("cuGetErrorName", driver.error_name);
  find.need("cuGetErrorString", driver.error_string);
  find.need("cuDeviceGetCount", driver.device_count);
  find.need("cuDeviceGet", driver.device);
  find.need("cuDeviceGetName", driver.device_name);
  find.need("cuDeviceGetPCIBusId", driver.device_bus_id);
  find.need("cuDeviceGetAttribute", driver.device_attribute);
  find.need("cuDeviceCanAccessPeer", driver.device_can_access_peer);
  find.need("cuCtxGetCurrent", driver.context_current);
  find.need("cuCtxSetCurrent", driver.context_set_current);
  find.need("cuCtxGetDevice", driver.context_device);
  find.need("cuCtxEnablePeerAccess", driver.context_enable_peer_access);
  find.need("cuDevicePrimaryCtxRetain", driver.primary_context_retain);
  find.need("cuDevicePrimaryCtxRelease_v2", driver.primary_context_release);
  if (!find.take("cuDeviceGetUuid_v2", driver.device_uuid))  // which tells parts of a GPU apart
    find.need("cuDeviceGetUuid", driver.device_uuid);
}

void find_memory(Finder& find, abi::Functions& driver) {
  find.need("cuMemAlloc_v2", driver.memory_allocate);
  find.need("cuMemFree_v2", driver.memory_free);
  find.need("cuMemGetInfo_v2", driver.memory_info);
  find.need("cuMemGetAddressRange_v2", driver.memory_range);
  find.need("cuMemHostRegister_v2", driver.host_register);
  find.need("cuMemHostUnregister", driver.host_unregister);
  find.need("cuMemHostGetDevicePointer_v2", driver.host_device_address);
  find.need("cuPointerGetAttributes", driver.pointer_attributes);
  find.need("cuIpcGetMemHandle", driver.ipc_handle);
  if (!find.take("cuIpcOpenMemHandle_v2", driver.ipc_open))
    find.need("cuIpcOpenMemHandle", driver.ipc_open);
  find.need("cuIpcCloseMemHandle", driver.ipc_close);
  find.take("cuMemCreate", driver.allocation_create);
  find.take("cuMemRelease", driver.allocation_release);
  find.take("cuMemRetainAllocationHandle", driver.allocation_retain);
  find.take("cuMemGetAllocationGranularity", driver.allocation_granularity);
  find.take("cuMemExportToShareableHandle", driver.allocation_export);
  find.take("cuMemImportFromShareableHandle", driver.allocation_import);
  find.take("cuMemAddressReserve", driver.address_reserve);
  find.take("cuMemAddressFree", driver.address_free);
  find.take("cuMemMap", driver.memory_map);
  find.take("cuMemUnmap", driver.memory_unmap);
  find.take("cuMemSetAccess", driver.memory_set_access);
  find.take("cuMemGetHandleForAddressRange", driver.range_handle);
}

void find_streams(Finder& find, abi::Functions& driver) {
  find.need("cuMemcpyAsync", driver.copy_async);
  find.need("cuMemcpyDtoDAsync_v2", driver.copy_on_device_async);
  find.need("cuMemsetD8Async", driver.fill_async);
  find.need("cuStreamCreateWithPriority", driver.stream_create);
  find.need("cuStreamDestroy_v2", driver.stream_destroy);
  find.need("cuStreamSynchronize", driver.stream_synchronize);
  find.need("cuStreamQuery", driver.stream_query);
  find.need("cuStreamGetCtx", driver.stream_context);
  find.need("cuStreamWaitEvent", driver.stream_wait_event);
  find.need("cuLaunchHostFunc", driver.launch_host_function);
  find.need("cuEventCreate", driver.event_create);
  find.need("cuEventRecord", driver.event_record);
  find.need("cuEventQuery", driver.event_query);
  find.need("cuEventSynchronize", driver.event_synchronize);
  find.need("cuEventDestroy_v2", driver.event_destroy);
  find.need("cuStreamIsCapturing", driver.stream_is_capturing);
  find.need("cuThreadExchangeStreamCaptureMode", driver.exchange_capture_mode);
  find.take("cuStreamWaitValue32_v2", driver.stream_wait_value);
  find.take("cuStreamWriteValue32_v2", driver.stream_write_value);
  find.take("cuStreamBatchMemOp_v2", driver.stream_batch);
  find.take("cuStreamGetCaptureInfo_v2", driver.stream_capture_info_v2);
  find.take("cuStreamGetCaptureInfo_v3", driver.stream_capture_info_v3);
  find.take("cuUserObjectCreate", driver.user_object_create);
  find.take("cuUserObjectRelease", driver.user_object_release);
  find.take("cuGraphRetainUserObject", driver.graph_retain_user_object);
}

void find_kernels(Finder& find, abi::Functions& driver) {
  find.need("cuModuleLoadData", driver.module_load);
  find.need("cuModuleUnload", driver.module_unload);
  find.need("cuModuleGetFunction", driver.module_function);
  find.need("cuFuncSetAttribute", driver.function_set_attribute);
  find.need("cuOccupancyMaxActiveBlocksPerMultiprocessor", driver.occupancy);
  find.need("cuLaunchKernel", driver.launch_kernel);
  find.need("cuLaunchCooperativeKernel", driver.launch_cooperative_kernel);
}

}  // namespace

Result<abi::Functions> find_entry_points(const char* library) {
  // Never closed: the driver has threads of its own.
  void* const handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const why = ::dlerror();  // NOLINT(concurrency-mt-unsafe): one a thread in glibc
    return make_error(Code::kUnsupported, "cannot open {}: {}; it comes with NVIDIA's driver",
                      library, why == nullptr ? "no reason was given" : why);
  }
  abi::Functions driver;
  Finder find(handle);
  find_devices(find, driver);
  find_memory(find, driver);
  find_streams(find, driver);
  find_kernels(find, driver);
  if (find.missing() != nullptr)
    return make_error(Code::kUnsupported,
                      "{} lacks the entry point {}: a driver for CUDA 10.1 or later has it",
                      library, find.missing());
  return driver;
}

}  // namespace tutti::cuda
