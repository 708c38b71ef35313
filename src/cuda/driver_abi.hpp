// The part of the CUDA driver's binary interface that Tutti uses, written from the documented entry
// points, so that building needs no NVIDIA header. The driver keeps these layouts: a changed
// function gets a new name (_v2). driver_abi_test.cpp compares them with NVIDIA's header where
// there is one.
#pragma once

#include <cstddef>
#include <cstdint>

// The driver's own tags: a handle has the same type here as in a program that includes cuda.h.
struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUmod_st;
struct CUfunc_st;
struct CUgraph_st;
struct CUgraphNode_st;
struct CUgraphExec_st;
struct CUuserObject_st;

namespace tutti::cuda::abi {

using Device = int;
using Address = unsigned long long;  // of memory, as the device sees it
inline void* pointer_to(Address address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}
using Context = CUctx_st*;
using Stream = CUstream_st*;
using Event = CUevent_st*;
using Module = CUmod_st*;
using Function = CUfunc_st*;
using Graph = CUgraph_st*;
using GraphNode = CUgraphNode_st*;
using GraphExec = CUgraphExec_st*;
using UserObject = CUuserObject_st*;
using AllocationHandle = unsigned long long;
using HostFunction = void (*)(void* user);

// Streams without a handle, and the numbers that stand for them.
inline constexpr std::uintptr_t kLegacyStream = 1;     // also 0
inline constexpr std::uintptr_t kPerThreadStream = 2;  // one per thread

/// What every entry point returns: values that Tutti distinguishes, or that the fake driver
/// returns.
enum class Return : unsigned {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kStubLibrary = 34,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kMapFailed = 205,
  kPeerAccessUnsupported = 217,
  kInvalidHandle = 400,
  kIllegalState = 401,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kPeerAccessAlreadyEnabled = 704,
  kContextIsDestroyed = 709,
  kHostMemoryAlreadyRegistered = 712,
  kHostMemoryNotRegistered = 713,
  kCooperativeLaunchTooLarge = 720,
  kNotPermitted = 800,
  kNotSupported = 801,
  kSystemNotReady = 802,
  kSystemDriverMismatch = 803,
  kStreamCaptureUnsupported = 900,
  kStreamCaptureInvalidated = 901,
  kStreamCaptureMerge = 902,
  kStreamCaptureUnmatched = 903,
  kStreamCaptureUnjoined = 904,
  kStreamCaptureIsolation = 905,
  kStreamCaptureImplicit = 906,
  kCapturedEvent = 907,
  kStreamCaptureWrongThread = 908,
  kUnknown = 999,
};

enum class DeviceAttribute : unsigned {
  kMaxSharedBytesPerBlock = 8,
  kMultiprocessors = 16,
  kMaxThreadsPerMultiprocessor = 39,
  kAsyncEngines = 40,
  kComputeMajor = 75,
  kComputeMinor = 76,
  kPageableMemoryAccess = 88,
  kRegisteredAtHostAddress = 91,
  kCooperativeLaunch = 95,
  kMaxSharedBytesPerBlockOptIn = 97,
  kHostRegister = 99,
  kVirtualMemoryManagement = 102,
  kPosixFdHandles = 103,
  kRdmaOfHandles = 110,
  kRdmaWritesOrdering = 118,
  kStreamMemoryOperations64 = 122,
  kDmaBuf = 124,
  kFabricHandles = 128,
};

enum class PointerAttribute : unsigned {
  kContext = 1,
  kMemoryType = 2,
  kDeviceAddress = 3,
  kHostAddress = 4,
  kIsManaged = 8,
  kDeviceOrdinal = 9,
  kIsLegacyIpcCapable = 10,
  kRangeStart = 11,
  kRangeBytes = 12,
  kMapped = 13,
};

enum class MemoryType : unsigned { kNone = 0, kHost = 1, kDevice = 2 };

enum class FunctionAttribute : unsigned { kMaxDynamicSharedBytes = 8 };

enum class CaptureStatus : unsigned { kNone = 0, kActive = 1, kInvalidated = 2 };
enum class CaptureMode : unsigned { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };

inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kWaitGreaterOrEqual = 0, kWaitEqual = 1, kWaitAnd = 2, kWaitNor = 3;
inline constexpr unsigned kHostRegisterPortable = 1, kHostRegisterDeviceMap = 2;
inline constexpr unsigned kIpcLazyEnablePeerAccess = 1;
inline constexpr unsigned kUserObjectNoDestructorSync = 1;
inline constexpr unsigned kGraphUserObjectMove = 1;
inline constexpr unsigned kMostBatchOperations = 255;

struct Uuid {
  char bytes[16];
};

struct IpcHandle {
  char reserved[64];
};
struct FabricHandle {
  unsigned char data[64];
};

enum class MemoryOperation : unsigned { kWaitValue32 = 1, kWriteValue32 = 2 };

/// One operation of a batch. Wait and write have the same layout.
struct BatchOperation {
  MemoryOperation operation;
  Address address;
  std::uint64_t value;  // only the low 32 bits
  unsigned flags;
  Address alias;
  std::uint64_t padding;
};
static_assert(sizeof(BatchOperation) == 48 && offsetof(BatchOperation, value) == 16);

enum class AllocationType : unsigned { kPinned = 1 };
enum class HandleType : unsigned { kNone = 0, kPosixFd = 1, kFabric = 8 };
enum class LocationType : unsigned { kDevice = 1 };
enum class AccessFlags : unsigned { kNone = 0, kRead = 1, kReadWrite = 3 };
enum class RangeHandleType : unsigned { kDmaBufFd = 1 };
/// From here on, kernels of the device see what a NIC wrote before the host did.
inline constexpr int kRdmaWritesOrderedForOwner = 100;
enum class Granularity : unsigned { kMinimum = 0, kRecommended = 1 };

struct Location {
  LocationType type;
  int id;
};

struct AllocationProperties {
  AllocationType type;
  HandleType handle_types;  // bits
  Location location;
  void* windows_only;
  unsigned char compression;
  unsigned char gpu_direct_rdma;
  unsigned short usage;
  unsigned char reserved[4];
};
static_assert(sizeof(AllocationProperties) == 32);

struct AccessDescription {
  Location location;
  AccessFlags flags;
};

/// The entry points. Those at the end, marked with a release, are null if the driver is older.
struct Functions {
  Return (*init)(unsigned flags) = nullptr;
  Return (*driver_version)(int* version) = nullptr;
  Return (*error_name)(Return error, const char** name) = nullptr;
  Return (*error_string)(Return error, const char** text) = nullptr;

  Return (*device_count)(int* count) = nullptr;
  Return (*device)(Device* device, int ordinal) = nullptr;
  Return (*device_name)(char* name, int bytes, Device device) = nullptr;
  Return (*device_bus_id)(char* text, int bytes, Device device) = nullptr;
  Return (*device_uuid)(Uuid* uuid, Device device) = nullptr;
  Return (*device_attribute)(int* value, DeviceAttribute attribute, Device device) = nullptr;
  Return (*device_can_access_peer)(int* can, Device device, Device peer) = nullptr;

  Return (*context_current)(Context* context) = nullptr;
  Return (*context_set_current)(Context context) = nullptr;
  Return (*context_device)(Device* device) = nullptr;
  Return (*context_enable_peer_access)(Context peer, unsigned flags) = nullptr;
  Return (*primary_context_retain)(Context* context, Device device) = nullptr;
  Return (*primary_context_release)(Device device) = nullptr;

  Return (*memory_allocate)(Address* address, std::size_t bytes) = nullptr;
  Return (*memory_free)(Address address) = nullptr;
  Return (*memory_info)(std::size_t* free, std::size_t* total) = nullptr;
  Return (*memory_range)(Address* base, std::size_t* bytes, Address address) = nullptr;
  Return (*host_register)(void* memory, std::size_t bytes, unsigned flags) = nullptr;
  Return (*host_unregister)(void* memory) = nullptr;
  Return (*host_device_address)(Address* address, void* memory, unsigned flags) = nullptr;
  Return (*pointer_attributes)(unsigned count, PointerAttribute* attributes, void** values,
                               Address address) = nullptr;
  Return (*ipc_handle)(IpcHandle* handle, Address address) = nullptr;
  Return (*ipc_open)(Address* address, IpcHandle handle, unsigned flags) = nullptr;
  Return (*ipc_close)(Address address) = nullptr;

  Return (*copy_async)(Address to, Address from, std::size_t bytes, Stream stream) = nullptr;
  Return (*copy_on_device_async)(Address to, Address from, std::size_t bytes,
                                 Stream stream) = nullptr;
  Return (*fill_async)(Address to, unsigned char byte, std::size_t bytes, Stream stream) = nullptr;

  Return (*stream_create)(Stream* stream, unsigned flags, int priority) = nullptr;
  Return (*stream_destroy)(Stream stream) = nullptr;
  Return (*stream_synchronize)(Stream stream) = nullptr;
  Return (*stream_query)(Stream stream) = nullptr;
  Return (*stream_context)(Stream stream, Context* context) = nullptr;
  Return (*stream_wait_event)(Stream stream, Event event, unsigned flags) = nullptr;
  Return (*launch_host_function)(Stream stream, HostFunction function, void* user) = nullptr;
  Return (*event_create)(Event* event, unsigned flags) = nullptr;
  Return (*event_record)(Event event, Stream stream) = nullptr;
  Return (*event_query)(Event event) = nullptr;
  Return (*event_synchronize)(Event event) = nullptr;
  Return (*event_destroy)(Event event) = nullptr;

  Return (*stream_is_capturing)(Stream stream, CaptureStatus* status) = nullptr;
  Return (*exchange_capture_mode)(CaptureMode* mode) = nullptr;

  Return (*module_load)(Module* module, const void* image) = nullptr;
  Return (*module_unload)(Module module) = nullptr;
  Return (*module_function)(Function* function, Module module, const char* name) = nullptr;
  Return (*function_set_attribute)(Function function, FunctionAttribute attribute,
                                   int value) = nullptr;
  Return (*occupancy)(int* blocks, Function function, int block_threads,
                      std::size_t dynamic_shared_bytes) = nullptr;
  Return (*launch_kernel)(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z,
                          unsigned shared_bytes, Stream stream, void** arguments,
                          void** extra) = nullptr;
  Return (*launch_cooperative_kernel)(Function function, unsigned grid_x, unsigned grid_y,
                                      unsigned grid_z, unsigned block_x, unsigned block_y,
                                      unsigned block_z, unsigned shared_bytes, Stream stream,
                                      void** arguments) = nullptr;

  // 10.2: memory by handles.
  Return (*allocation_create)(AllocationHandle* handle, std::size_t bytes,
                              const AllocationProperties* properties,
                              unsigned long long flags) = nullptr;
  Return (*allocation_release)(AllocationHandle handle) = nullptr;
  Return (*allocation_retain)(AllocationHandle* handle, void* address) = nullptr;
  Return (*allocation_granularity)(std::size_t* bytes, const AllocationProperties* properties,
                                   Granularity option) = nullptr;
  Return (*allocation_export)(void* shareable, AllocationHandle handle, HandleType type,
                              unsigned long long flags) = nullptr;
  Return (*allocation_import)(AllocationHandle* handle, void* shareable, HandleType type) = nullptr;
  Return (*address_reserve)(Address* address, std::size_t bytes, std::size_t alignment,
                            Address wanted, unsigned long long flags) = nullptr;
  Return (*address_free)(Address address, std::size_t bytes) = nullptr;
  Return (*memory_map)(Address address, std::size_t bytes, std::size_t offset,
                       AllocationHandle handle, unsigned long long flags) = nullptr;
  Return (*memory_unmap)(Address address, std::size_t bytes) = nullptr;
  Return (*memory_set_access)(Address address, std::size_t bytes,
                              const AccessDescription* descriptions, std::size_t count) = nullptr;

  // 11.3: objects that a graph under capture keeps alive.
  Return (*stream_capture_info_v2)(Stream stream, CaptureStatus* status, std::uint64_t* id,
                                   Graph* graph, const GraphNode** dependencies,
                                   std::size_t* count) = nullptr;
  Return (*user_object_create)(UserObject* object, void* user, HostFunction destroy,
                               unsigned references, unsigned flags) = nullptr;
  Return (*user_object_release)(UserObject object, unsigned count) = nullptr;
  Return (*graph_retain_user_object)(Graph graph, UserObject object, unsigned count,
                                     unsigned flags) = nullptr;

  // 11.7: a range of device memory as a descriptor, for other drivers of the kernel.
  Return (*range_handle)(void* handle, Address address, std::size_t bytes, RangeHandleType type,
                         unsigned long long flags) = nullptr;

  // 11.7: words that a stream waits for and writes, without an option of the kernel module.
  Return (*stream_wait_value)(Stream stream, Address address, std::uint32_t value,
                              unsigned flags) = nullptr;
  Return (*stream_write_value)(Stream stream, Address address, std::uint32_t value,
                               unsigned flags) = nullptr;
  Return (*stream_batch)(Stream stream, unsigned count, BatchOperation* operations,
                         unsigned flags) = nullptr;

  // 12.3: v2 fails if a graph has edges of a newer kind.
  Return (*stream_capture_info_v3)(Stream stream, CaptureStatus* status, std::uint64_t* id,
                                   Graph* graph, const GraphNode** dependencies, const void** edges,
                                   std::size_t* count) = nullptr;
};

}  // namespace tutti::cuda::abi
