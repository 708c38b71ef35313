// The part of NVML's binary interface that Tutti uses, written from its documented layouts, so that
// building needs no NVIDIA header. NVML keeps these layouts: a changed one gets a new name (_v2).
#pragma once

#include <cstddef>

namespace tutti::cuda::nvml_abi {

using Device = struct NvmlDevice*;
using Return = int;
inline constexpr Return kSuccess = 0;

struct PciInfo {  // nvmlPciInfo_t
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];  // "00000000:07:00.0"
};
static_assert(sizeof(PciInfo) == 68 && offsetof(PciInfo, bus_id) == 36);

struct FieldValue {  // nvmlFieldValue_t
  unsigned field;
  unsigned scope;
  long long timestamp;
  long long latency_us;
  int type;  // type of the value; 1: unsigned int
  Return result;
  union {
    unsigned unsigned_int;
    double widest;
  } value;
};
static_assert(sizeof(FieldValue) == 40 && offsetof(FieldValue, value) == 32);

struct FabricInfo {  // nvmlGpuFabricInfo_t
  unsigned char cluster[16];
  Return status;
  unsigned clique;
  unsigned char state;
};
static_assert(sizeof(FabricInfo) == 28 && offsetof(FabricInfo, state) == 24);

inline constexpr unsigned char kFabricCompleted = 3;
inline constexpr unsigned kMostNvlinks =
    36;  // more than any GPU has; NVML returns an error for missing ones
inline constexpr unsigned kC2cLinkCount = 170, kC2cLinkStatus = 171, kC2cLinkMaxMbPerS = 172;
// Kinds of device at the other end of an NVLink.
inline constexpr int kRemoteGpu = 0, kRemoteCpu = 1, kRemoteSwitch = 2;

/// The entry points. The last five may be null, because older drivers lack them.
struct Functions {
  Return (*init)() = nullptr;
  Return (*shutdown)() = nullptr;
  const char* (*error_string)(Return) = nullptr;
  Return (*device_count)(unsigned* count) = nullptr;
  Return (*device)(unsigned index, Device* device) = nullptr;
  Return (*pci_info)(Device, PciInfo*) = nullptr;
  Return (*name)(Device, char* text, unsigned bytes) = nullptr;
  Return (*compute_capability)(Device, int* major, int* minor) = nullptr;
  Return (*nvlink_state)(Device, unsigned link, int* enabled) = nullptr;
  Return (*nvlink_remote)(Device, unsigned link, PciInfo*) = nullptr;
  Return (*nvlink_remote_type)(Device, unsigned link, int* type) = nullptr;
  Return (*field_values)(Device, int count, FieldValue*) = nullptr;
  Return (*fabric)(Device, FabricInfo*) = nullptr;
};

}  // namespace tutti::cuda::nvml_abi
