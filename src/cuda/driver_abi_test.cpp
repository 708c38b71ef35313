// Holds our reading of the driver's binary interface to NVIDIA's header, where it is at hand.
#include "src/cuda/driver_abi.hpp"

#if __has_include(<cuda.h>)
#include <cstddef>
#include <type_traits>

#include <cuda.h>

namespace tutti::cuda {
namespace {

using namespace abi;

template <auto ours, auto theirs>
inline constexpr bool kSame =
    static_cast<unsigned long long>(ours) == static_cast<unsigned long long>(theirs);

/// Passed in the same way: pointers, or values of the same size and kind.
template <class Ours, class Theirs>
inline constexpr bool kPassedAlike =
    sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
    std::is_class_v<Ours> == std::is_class_v<Theirs> &&
    std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs>;

template <class Ours, class Theirs>
inline constexpr bool kSameCall = false;
template <class OurReturn, class... Ours, class TheirReturn, class... Theirs>
  requires(sizeof...(Ours) == sizeof...(Theirs))
inline constexpr bool kSameCall<OurReturn (*)(Ours...), TheirReturn (*)(Theirs...)> =
    kPassedAlike<OurReturn, TheirReturn> && (kPassedAlike<Ours, Theirs> && ...);
static_assert(kSameCall<int (*)(int*, unsigned), Return (*)(char*, int)>);
static_assert(!kSameCall<int (*)(int*, unsigned), Return (*)(char*, long)>);

static_assert(std::is_same_v<abi::Device, CUdevice>);
static_assert(std::is_same_v<abi::Address, CUdeviceptr>);
static_assert(std::is_same_v<abi::Context, CUcontext>);
static_assert(std::is_same_v<abi::Stream, CUstream>);
static_assert(std::is_same_v<abi::Event, CUevent>);
static_assert(std::is_same_v<abi::Module, CUmodule>);
static_assert(std::is_same_v<abi::Function, CUfunction>);
static_assert(std::is_same_v<abi::Graph, CUgraph>);
static_assert(std::is_same_v<abi::GraphNode, CUgraphNode>);
static_assert(std::is_same_v<abi::GraphExec, CUgraphExec>);
static_assert(std::is_same_v<abi::UserObject, CUuserObject>);
static_assert(std::is_same_v<abi::AllocationHandle, CUmemGenericAllocationHandle>);

static_assert(sizeof(abi::Uuid) == sizeof(CUuuid) && alignof(abi::Uuid) == alignof(CUuuid));
static_assert(sizeof(abi::IpcHandle) == sizeof(CUipcMemHandle) &&
              alignof(abi::IpcHandle) == alignof(CUipcMemHandle));
static_assert(sizeof(abi::FabricHandle) == sizeof(CUmemFabricHandle) &&
              alignof(abi::FabricHandle) == alignof(CUmemFabricHandle));
static_assert(sizeof(abi::Location) == sizeof(CUmemLocation) &&
              alignof(abi::Location) == alignof(CUmemLocation));
static_assert(offsetof(abi::Location, type) == offsetof(CUmemLocation, type));
static_assert(offsetof(abi::Location, id) == offsetof(CUmemLocation, id));
static_assert(sizeof(abi::AllocationProperties) == sizeof(CUmemAllocationProp) &&
              alignof(abi::AllocationProperties) == alignof(CUmemAllocationProp));
static_assert(offsetof(abi::AllocationProperties, type) == offsetof(CUmemAllocationProp, type));
static_assert(offsetof(abi::AllocationProperties, handle_types) ==
              offsetof(CUmemAllocationProp, requestedHandleTypes));
static_assert(offsetof(abi::AllocationProperties, location) ==
              offsetof(CUmemAllocationProp, location));
static_assert(offsetof(abi::AllocationProperties, windows_only) ==
              offsetof(CUmemAllocationProp, win32HandleMetaData));
static_assert(offsetof(abi::AllocationProperties, compression) ==
              offsetof(CUmemAllocationProp, allocFlags.compressionType));
static_assert(offsetof(abi::AllocationProperties, gpu_direct_rdma) ==
              offsetof(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable));
static_assert(offsetof(abi::AllocationProperties, usage) ==
              offsetof(CUmemAllocationProp, allocFlags.usage));
static_assert(sizeof(abi::AccessDescription) == sizeof(CUmemAccessDesc) &&
              alignof(abi::AccessDescription) == alignof(CUmemAccessDesc));
static_assert(offsetof(abi::AccessDescription, location) == offsetof(CUmemAccessDesc, location));
static_assert(offsetof(abi::AccessDescription, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(sizeof(abi::BatchOperation) == sizeof(CUstreamBatchMemOpParams) &&
              alignof(abi::BatchOperation) == alignof(CUstreamBatchMemOpParams));
static_assert(offsetof(abi::BatchOperation, operation) ==
              offsetof(CUstreamBatchMemOpParams, waitValue.operation));
static_assert(offsetof(abi::BatchOperation, address) ==
              offsetof(CUstreamBatchMemOpParams, waitValue.address));
static_assert(offsetof(abi::BatchOperation, value) ==
              offsetof(CUstreamBatchMemOpParams, waitValue.value));
static_assert(offsetof(abi::BatchOperation, flags) ==
              offsetof(CUstreamBatchMemOpParams, waitValue.flags));
static_assert(offsetof(abi::BatchOperation, alias) ==
              offsetof(CUstreamBatchMemOpParams, waitValue.alias));
static_assert(offsetof(abi::BatchOperation, operation) ==
              offsetof(CUstreamBatchMemOpParams, writeValue.operation));
static_assert(offsetof(abi::BatchOperation, address) ==
              offsetof(CUstreamBatchMemOpParams, writeValue.address));
static_assert(offsetof(abi::BatchOperation, value) ==
              offsetof(CUstreamBatchMemOpParams, writeValue.value));
static_assert(offsetof(abi::BatchOperation, flags) ==
              offsetof(CUstreamBatchMemOpParams, writeValue.flags));
static_assert(offsetof(abi::BatchOperation, alias) ==
              offsetof(CUstreamBatchMemOpParams, writeValue.alias));

static_assert(kSame<Return::kSuccess, CUDA_SUCCESS>);
static_assert(kSame<Return::kInvalidValue, CUDA_ERROR_INVALID_VALUE>);
static_assert(kSame<Return::kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY>);
static_assert(kSame<Return::kNotInitialized, CUDA_ERROR_NOT_INITIALIZED>);
static_assert(kSame<Return::kDeinitialized, CUDA_ERROR_DEINITIALIZED>);
static_assert(kSame<Return::kStubLibrary, CUDA_ERROR_STUB_LIBRARY>);
static_assert(kSame<Return::kNoDevice, CUDA_ERROR_NO_DEVICE>);
static_assert(kSame<Return::kInvalidDevice, CUDA_ERROR_INVALID_DEVICE>);
static_assert(kSame<Return::kInvalidImage, CUDA_ERROR_INVALID_IMAGE>);
static_assert(kSame<Return::kInvalidContext, CUDA_ERROR_INVALID_CONTEXT>);
static_assert(kSame<Return::kMapFailed, CUDA_ERROR_MAP_FAILED>);
static_assert(kSame<Return::kPeerAccessUnsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED>);
static_assert(kSame<Return::kInvalidHandle, CUDA_ERROR_INVALID_HANDLE>);
static_assert(kSame<Return::kIllegalState, CUDA_ERROR_ILLEGAL_STATE>);
static_assert(kSame<Return::kNotFound, CUDA_ERROR_NOT_FOUND>);
static_assert(kSame<Return::kNotReady, CUDA_ERROR_NOT_READY>);
static_assert(kSame<Return::kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS>);
static_assert(kSame<Return::kPeerAccessAlreadyEnabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED>);
static_assert(kSame<Return::kContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED>);
static_assert(
    kSame<Return::kHostMemoryAlreadyRegistered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED>);
static_assert(kSame<Return::kHostMemoryNotRegistered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED>);
static_assert(kSame<Return::kCooperativeLaunchTooLarge, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE>);
static_assert(kSame<Return::kNotPermitted, CUDA_ERROR_NOT_PERMITTED>);
static_assert(kSame<Return::kNotSupported, CUDA_ERROR_NOT_SUPPORTED>);
static_assert(kSame<Return::kSystemNotReady, CUDA_ERROR_SYSTEM_NOT_READY>);
static_assert(kSame<Return::kSystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH>);
static_assert(kSame<Return::kStreamCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED>);
static_assert(kSame<Return::kStreamCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED>);
static_assert(kSame<Return::kStreamCaptureMerge, CUDA_ERROR_STREAM_CAPTURE_MERGE>);
static_assert(kSame<Return::kStreamCaptureUnmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED>);
static_assert(kSame<Return::kStreamCaptureUnjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED>);
static_assert(kSame<Return::kStreamCaptureIsolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION>);
static_assert(kSame<Return::kStreamCaptureImplicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT>);
static_assert(kSame<Return::kCapturedEvent, CUDA_ERROR_CAPTURED_EVENT>);
static_assert(kSame<Return::kStreamCaptureWrongThread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD>);
static_assert(kSame<Return::kUnknown, CUDA_ERROR_UNKNOWN>);

static_assert(kSame<DeviceAttribute::kMaxSharedBytesPerBlock,
                    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK>);
static_assert(kSame<DeviceAttribute::kMultiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT>);
static_assert(kSame<DeviceAttribute::kMaxThreadsPerMultiprocessor,
                    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR>);
static_assert(kSame<DeviceAttribute::kAsyncEngines, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT>);
static_assert(kSame<DeviceAttribute::kComputeMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR>);
static_assert(kSame<DeviceAttribute::kComputeMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR>);
static_assert(
    kSame<DeviceAttribute::kPageableMemoryAccess, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS>);
static_assert(kSame<DeviceAttribute::kRegisteredAtHostAddress,
                    CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM>);
static_assert(kSame<DeviceAttribute::kCooperativeLaunch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH>);
static_assert(kSame<DeviceAttribute::kMaxSharedBytesPerBlockOptIn,
                    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN>);
static_assert(kSame<DeviceAttribute::kHostRegister, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED>);
static_assert(kSame<DeviceAttribute::kVirtualMemoryManagement,
                    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED>);
static_assert(kSame<DeviceAttribute::kPosixFdHandles,
                    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED>);
static_assert(kSame<DeviceAttribute::kRdmaOfHandles,
                    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED>);
static_assert(kSame<DeviceAttribute::kRdmaWritesOrdering,
                    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING>);
static_assert(kSame<DeviceAttribute::kDmaBuf, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED>);
static_assert(kSame<DeviceAttribute::kStreamMemoryOperations64,
                    CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS>);
static_assert(
    kSame<DeviceAttribute::kFabricHandles, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED>);

static_assert(kSame<PointerAttribute::kContext, CU_POINTER_ATTRIBUTE_CONTEXT>);
static_assert(kSame<PointerAttribute::kMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE>);
static_assert(kSame<PointerAttribute::kDeviceAddress, CU_POINTER_ATTRIBUTE_DEVICE_POINTER>);
static_assert(kSame<PointerAttribute::kHostAddress, CU_POINTER_ATTRIBUTE_HOST_POINTER>);
static_assert(kSame<PointerAttribute::kIsManaged, CU_POINTER_ATTRIBUTE_IS_MANAGED>);
static_assert(kSame<PointerAttribute::kDeviceOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL>);
static_assert(
    kSame<PointerAttribute::kIsLegacyIpcCapable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE>);
static_assert(kSame<PointerAttribute::kRangeStart, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR>);
static_assert(kSame<PointerAttribute::kRangeBytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE>);
static_assert(kSame<PointerAttribute::kMapped, CU_POINTER_ATTRIBUTE_MAPPED>);

static_assert(kSame<MemoryType::kHost, CU_MEMORYTYPE_HOST>);
static_assert(kSame<MemoryType::kDevice, CU_MEMORYTYPE_DEVICE>);
static_assert(kSame<FunctionAttribute::kMaxDynamicSharedBytes,
                    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES>);
static_assert(kSame<CaptureStatus::kNone, CU_STREAM_CAPTURE_STATUS_NONE>);
static_assert(kSame<CaptureStatus::kActive, CU_STREAM_CAPTURE_STATUS_ACTIVE>);
static_assert(kSame<CaptureStatus::kInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED>);
static_assert(kSame<CaptureMode::kGlobal, CU_STREAM_CAPTURE_MODE_GLOBAL>);
static_assert(kSame<CaptureMode::kThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL>);
static_assert(kSame<CaptureMode::kRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED>);
static_assert(kSame<kEventDisableTiming, CU_EVENT_DISABLE_TIMING>);
static_assert(kSame<kStreamNonBlocking, CU_STREAM_NON_BLOCKING>);
static_assert(kSame<kWaitGreaterOrEqual, CU_STREAM_WAIT_VALUE_GEQ>);
static_assert(kSame<kWaitEqual, CU_STREAM_WAIT_VALUE_EQ>);
static_assert(kSame<kWaitAnd, CU_STREAM_WAIT_VALUE_AND>);
static_assert(kSame<kWaitNor, CU_STREAM_WAIT_VALUE_NOR>);
static_assert(kSame<kHostRegisterPortable, CU_MEMHOSTREGISTER_PORTABLE>);
static_assert(kSame<kHostRegisterDeviceMap, CU_MEMHOSTREGISTER_DEVICEMAP>);
static_assert(kSame<kIpcLazyEnablePeerAccess, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS>);
static_assert(kSame<kUserObjectNoDestructorSync, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC>);
static_assert(kSame<kGraphUserObjectMove, CU_GRAPH_USER_OBJECT_MOVE>);
static_assert(kSame<MemoryOperation::kWaitValue32, CU_STREAM_MEM_OP_WAIT_VALUE_32>);
static_assert(kSame<MemoryOperation::kWriteValue32, CU_STREAM_MEM_OP_WRITE_VALUE_32>);
static_assert(kSame<AllocationType::kPinned, CU_MEM_ALLOCATION_TYPE_PINNED>);
static_assert(kSame<HandleType::kNone, CU_MEM_HANDLE_TYPE_NONE>);
static_assert(kSame<HandleType::kPosixFd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR>);
static_assert(kSame<HandleType::kFabric, CU_MEM_HANDLE_TYPE_FABRIC>);
static_assert(kSame<LocationType::kDevice, CU_MEM_LOCATION_TYPE_DEVICE>);
static_assert(kSame<AccessFlags::kNone, CU_MEM_ACCESS_FLAGS_PROT_NONE>);
static_assert(kSame<AccessFlags::kRead, CU_MEM_ACCESS_FLAGS_PROT_READ>);
static_assert(kSame<AccessFlags::kReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE>);
static_assert(kSame<RangeHandleType::kDmaBufFd, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD>);
static_assert(kRdmaWritesOrderedForOwner == CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER);
static_assert(kSame<Granularity::kMinimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM>);
static_assert(kSame<Granularity::kRecommended, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED>);

static_assert(kSameCall<decltype(abi::Functions::init), decltype(&cuInit)>);
static_assert(kSameCall<decltype(abi::Functions::driver_version), decltype(&cuDriverGetVersion)>);
static_assert(kSameCall<decltype(abi::Functions::error_name), decltype(&cuGetErrorName)>);
static_assert(kSameCall<decltype(abi::Functions::error_string), decltype(&cuGetErrorString)>);
static_assert(kSameCall<decltype(abi::Functions::device_count), decltype(&cuDeviceGetCount)>);
static_assert(kSameCall<decltype(abi::Functions::device), decltype(&cuDeviceGet)>);
static_assert(kSameCall<decltype(abi::Functions::device_name), decltype(&cuDeviceGetName)>);
static_assert(kSameCall<decltype(abi::Functions::device_bus_id), decltype(&cuDeviceGetPCIBusId)>);
static_assert(
    kSameCall<decltype(abi::Functions::device_attribute), decltype(&cuDeviceGetAttribute)>);
static_assert(
    kSameCall<decltype(abi::Functions::device_can_access_peer), decltype(&cuDeviceCanAccessPeer)>);
static_assert(kSameCall<decltype(abi::Functions::context_current), decltype(&cuCtxGetCurrent)>);
static_assert(kSameCall<decltype(abi::Functions::context_set_current), decltype(&cuCtxSetCurrent)>);
static_assert(kSameCall<decltype(abi::Functions::context_device), decltype(&cuCtxGetDevice)>);
static_assert(kSameCall<decltype(abi::Functions::context_enable_peer_access),
                        decltype(&cuCtxEnablePeerAccess)>);
static_assert(kSameCall<decltype(abi::Functions::primary_context_retain),
                        decltype(&cuDevicePrimaryCtxRetain)>);
static_assert(kSameCall<decltype(abi::Functions::primary_context_release),
                        decltype(&cuDevicePrimaryCtxRelease_v2)>);
static_assert(kSameCall<decltype(abi::Functions::device_uuid), decltype(&cuDeviceGetUuid_v2)>);
static_assert(kSameCall<decltype(abi::Functions::memory_allocate), decltype(&cuMemAlloc_v2)>);
static_assert(kSameCall<decltype(abi::Functions::memory_free), decltype(&cuMemFree_v2)>);
static_assert(kSameCall<decltype(abi::Functions::memory_info), decltype(&cuMemGetInfo_v2)>);
static_assert(
    kSameCall<decltype(abi::Functions::memory_range), decltype(&cuMemGetAddressRange_v2)>);
static_assert(kSameCall<decltype(abi::Functions::host_register), decltype(&cuMemHostRegister_v2)>);
static_assert(kSameCall<decltype(abi::Functions::host_unregister), decltype(&cuMemHostUnregister)>);
static_assert(kSameCall<decltype(abi::Functions::host_device_address),
                        decltype(&cuMemHostGetDevicePointer_v2)>);
static_assert(
    kSameCall<decltype(abi::Functions::pointer_attributes), decltype(&cuPointerGetAttributes)>);
static_assert(kSameCall<decltype(abi::Functions::ipc_handle), decltype(&cuIpcGetMemHandle)>);
static_assert(kSameCall<decltype(abi::Functions::ipc_open), decltype(&cuIpcOpenMemHandle_v2)>);
static_assert(kSameCall<decltype(abi::Functions::ipc_close), decltype(&cuIpcCloseMemHandle)>);
static_assert(kSameCall<decltype(abi::Functions::allocation_create), decltype(&cuMemCreate)>);
static_assert(kSameCall<decltype(abi::Functions::allocation_release), decltype(&cuMemRelease)>);
static_assert(
    kSameCall<decltype(abi::Functions::allocation_retain), decltype(&cuMemRetainAllocationHandle)>);
static_assert(kSameCall<decltype(abi::Functions::allocation_granularity),
                        decltype(&cuMemGetAllocationGranularity)>);
static_assert(kSameCall<decltype(abi::Functions::allocation_export),
                        decltype(&cuMemExportToShareableHandle)>);
static_assert(kSameCall<decltype(abi::Functions::allocation_import),
                        decltype(&cuMemImportFromShareableHandle)>);
static_assert(kSameCall<decltype(abi::Functions::address_reserve), decltype(&cuMemAddressReserve)>);
static_assert(kSameCall<decltype(abi::Functions::address_free), decltype(&cuMemAddressFree)>);
static_assert(kSameCall<decltype(abi::Functions::memory_map), decltype(&cuMemMap)>);
static_assert(kSameCall<decltype(abi::Functions::memory_unmap), decltype(&cuMemUnmap)>);
static_assert(kSameCall<decltype(abi::Functions::memory_set_access), decltype(&cuMemSetAccess)>);
static_assert(
    kSameCall<decltype(abi::Functions::range_handle), decltype(&cuMemGetHandleForAddressRange)>);
static_assert(kSameCall<decltype(abi::Functions::copy_async), decltype(&cuMemcpyAsync)>);
static_assert(
    kSameCall<decltype(abi::Functions::copy_on_device_async), decltype(&cuMemcpyDtoDAsync_v2)>);
static_assert(kSameCall<decltype(abi::Functions::fill_async), decltype(&cuMemsetD8Async)>);
static_assert(
    kSameCall<decltype(abi::Functions::stream_create), decltype(&cuStreamCreateWithPriority)>);
static_assert(kSameCall<decltype(abi::Functions::stream_destroy), decltype(&cuStreamDestroy_v2)>);
static_assert(
    kSameCall<decltype(abi::Functions::stream_synchronize), decltype(&cuStreamSynchronize)>);
static_assert(kSameCall<decltype(abi::Functions::stream_query), decltype(&cuStreamQuery)>);
static_assert(kSameCall<decltype(abi::Functions::stream_context), decltype(&cuStreamGetCtx)>);
static_assert(kSameCall<decltype(abi::Functions::stream_wait_event), decltype(&cuStreamWaitEvent)>);
static_assert(
    kSameCall<decltype(abi::Functions::launch_host_function), decltype(&cuLaunchHostFunc)>);
static_assert(kSameCall<decltype(abi::Functions::event_create), decltype(&cuEventCreate)>);
static_assert(kSameCall<decltype(abi::Functions::event_record), decltype(&cuEventRecord)>);
static_assert(kSameCall<decltype(abi::Functions::event_query), decltype(&cuEventQuery)>);
static_assert(
    kSameCall<decltype(abi::Functions::event_synchronize), decltype(&cuEventSynchronize)>);
static_assert(kSameCall<decltype(abi::Functions::event_destroy), decltype(&cuEventDestroy_v2)>);
static_assert(
    kSameCall<decltype(abi::Functions::stream_is_capturing), decltype(&cuStreamIsCapturing)>);
static_assert(kSameCall<decltype(abi::Functions::exchange_capture_mode),
                        decltype(&cuThreadExchangeStreamCaptureMode)>);
static_assert(
    kSameCall<decltype(abi::Functions::stream_wait_value), decltype(&cuStreamWaitValue32_v2)>);
static_assert(
    kSameCall<decltype(abi::Functions::stream_write_value), decltype(&cuStreamWriteValue32_v2)>);
static_assert(kSameCall<decltype(abi::Functions::stream_batch), decltype(&cuStreamBatchMemOp_v2)>);
static_assert(kSameCall<decltype(abi::Functions::stream_capture_info_v3),
                        decltype(&cuStreamGetCaptureInfo_v3)>);
static_assert(
    kSameCall<decltype(abi::Functions::user_object_create), decltype(&cuUserObjectCreate)>);
static_assert(
    kSameCall<decltype(abi::Functions::user_object_release), decltype(&cuUserObjectRelease)>);
static_assert(kSameCall<decltype(abi::Functions::graph_retain_user_object),
                        decltype(&cuGraphRetainUserObject)>);
static_assert(kSameCall<decltype(abi::Functions::module_load), decltype(&cuModuleLoadData)>);
static_assert(kSameCall<decltype(abi::Functions::module_unload), decltype(&cuModuleUnload)>);
static_assert(kSameCall<decltype(abi::Functions::module_function), decltype(&cuModuleGetFunction)>);
static_assert(
    kSameCall<decltype(abi::Functions::function_set_attribute), decltype(&cuFuncSetAttribute)>);
static_assert(kSameCall<decltype(abi::Functions::occupancy),
                        decltype(&cuOccupancyMaxActiveBlocksPerMultiprocessor)>);
static_assert(kSameCall<decltype(abi::Functions::launch_kernel), decltype(&cuLaunchKernel)>);
static_assert(kSameCall<decltype(abi::Functions::launch_cooperative_kernel),
                        decltype(&cuLaunchCooperativeKernel)>);

}  // namespace
}  // namespace tutti::cuda
#endif
