// What NCCL's plugins for networks (abi_net.hpp) and for collectives in the network
// (abi_collnet.hpp) have in common, as NCCL's interface lays it out in memory. Plain C layouts, in
// our own words. The number of a template is the version of the interface: 6 to 12.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::plugin::abi {

inline constexpr int kOldest = 6;
inline constexpr int kNewest = 12;

/// ncclResult_t.
using Outcome = int;
inline constexpr Outcome kSuccess = 0;
inline constexpr Outcome kCudaError = 1;
inline constexpr Outcome kSystemError = 2;
inline constexpr Outcome kInternalError = 3;
inline constexpr Outcome kInvalidArgument = 4;
inline constexpr Outcome kInvalidUsage = 5;
inline constexpr Outcome kRemoteError = 6;
inline constexpr Outcome kInProgress = 7;

inline constexpr std::size_t kHandleBytes = 128;  ///< what listen fills and connect reads
/// Bits of pointer_support, and the type that registering takes.
inline constexpr int kHostPointers = 1;
inline constexpr int kCudaPointers = 2;
inline constexpr int kDmaBufs = 4;
/// Requests of one comm that may be under way.
inline constexpr int kMostRequests = 32;
inline constexpr int kMostRequestsOfV6 = 8;
/// No device claims larger messages: 1 TiB.
inline constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;
/// What devices carry whose properties do not say: versions before 9.
inline constexpr std::uint64_t kOldMostP2pBytes = std::uint64_t{1} << 30;
inline constexpr std::uint64_t kOldMostCollectiveBytes = std::uint64_t{1} << 29;
/// What *request holds before a receive whose completion nobody will ask for. Tutti asks for every
/// completion, so no plugin ever sees it.
inline constexpr std::uintptr_t kOptionalCompletion = 1;
inline constexpr int kUndefined = -1;  ///< a traffic class, rail or plane that nobody has set

/// `level` and `flags` are LogLevel and Subsystem of src/base/log.hpp, in numbers.
using Logger = void (*)(int level, unsigned long flags, const char* file, int line,
                        const char* format, ...);
/// `action`: 0 starts an event, 1 ends it.
using ProfilerCallback = Outcome (*)(void** event, int action, void* parent, std::int64_t plugin,
                                     void* data);

/// Physical devices that make up one device.
template <int kMost>
struct DeviceSet {
  int count;
  int devices[kMost];
};

template <int kVersion>
struct Properties;

template <>
struct Properties<6> {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int speed;  // Mbit/s
  int port;
  float latency;  // us
  int max_comms;
  int max_receives;
};
static_assert(sizeof(Properties<6>) == 48 && offsetof(Properties<6>, max_receives) == 44);

template <>
struct Properties<7> {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int speed;
  int port;
  float latency;
  int max_comms;
  int max_receives;
  int device_type;
  int device_version;
};
static_assert(sizeof(Properties<7>) == 56 && offsetof(Properties<7>, device_version) == 52);

template <>
struct Properties<8> {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int speed;
  int port;
  float latency;
  int max_comms;
  int max_receives;
  int device_type;
  int device_version;
};
static_assert(sizeof(Properties<8>) == 64 && offsetof(Properties<8>, device_version) == 56);

template <>
struct Properties<9> {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int force_flush;
  int speed;
  int port;
  float latency;
  int max_comms;
  int max_receives;
  int device_type;
  int device_version;
  DeviceSet<4> devices;
  std::size_t max_p2p_bytes;
  std::size_t max_collective_bytes;
};
static_assert(sizeof(Properties<9>) == 104 && offsetof(Properties<9>, devices) == 64 &&
              offsetof(Properties<9>, max_collective_bytes) == 96);

template <>
struct Properties<10> : Properties<9> {};

template <>
struct Properties<11> {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int force_flush;
  int speed;
  int port;
  float latency;
  int max_comms;
  int max_receives;
  int device_type;
  int device_version;
  DeviceSet<4> devices;
  std::size_t max_p2p_bytes;
  std::size_t max_collective_bytes;
  int max_multi_requests;
};
static_assert(sizeof(Properties<11>) == 112 && offsetof(Properties<11>, max_multi_requests) == 104);

template <>
struct Properties<12> {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int force_flush;
  int speed;
  int port;
  float latency;
  int max_comms;
  int max_receives;
  int device_type;
  int device_version;
  DeviceSet<8> devices;
  std::size_t max_p2p_bytes;
  std::size_t max_collective_bytes;
  int max_multi_requests;
  std::int16_t rail;
  std::int16_t plane;
};
static_assert(sizeof(Properties<12>) == 128 && offsetof(Properties<12>, max_p2p_bytes) == 104 &&
              offsetof(Properties<12>, rail) == 124 && offsetof(Properties<12>, plane) == 126);

// Signatures that all versions of both interfaces share.
using InitWithLogger = Outcome (*)(Logger);
using Finalize = Outcome (*)(void* context);
using CountDevices = Outcome (*)(int* count);
template <int kVersion>
using GetProperties = Outcome (*)(int device, Properties<kVersion>*);
using Listen = Outcome (*)(int device, void* handle, void** listener);
using ListenInContext = Outcome (*)(void* context, int device, void* handle, void** listener);
using RegisterInt = Outcome (*)(void* comm, void* data, int bytes, int type, void** registration);
using Register = Outcome (*)(void* comm, void* data, std::size_t bytes, int type,
                             void** registration);
using RegisterDmaBuf = Outcome (*)(void* comm, void* data, std::size_t bytes, int type,
                                   std::uint64_t offset, int fd, void** registration);
using Deregister = Outcome (*)(void* comm, void* registration);
using Test = Outcome (*)(void* request, int* done, int* bytes);
using Close = Outcome (*)(void* comm);
template <int kMost>
using MakeVirtualDevice = Outcome (*)(int* device, DeviceSet<kMost>*);

}  // namespace tutti::plugin::abi
