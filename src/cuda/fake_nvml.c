/* An NVML of two GPUs, as a library that tests open in place of the driver's. GPU 0 has six links
 * to an NVSwitch, a broken one and a fabric; GPU 1 has two links to GPU 0 and two to its CPU.
 * FAKE_NVML_BROKEN in the environment makes its start fail. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
enum { kSuccess = 0, kInvalidArgument = 2, kNotSupported = 3, kDriverNotLoaded = 9 };

typedef struct NvmlDevice {
  unsigned bus;
} NvmlDevice;
static NvmlDevice devices[2] = {{0x07}, {0xc1}};

typedef struct {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
} PciInfo;

typedef struct {
  unsigned field, scope;
  long long timestamp, latency_us;
  int type, result;
  union {
    unsigned unsigned_int;
    double widest;
  } value;
} FieldValue;

typedef struct {
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
} FabricInfo;

static int is_first(const NvmlDevice* device) { return device == &devices[0]; }

static int locate(PciInfo* info, unsigned bus) {
  memset(info, 0, sizeof *info);
  info->bus = bus;
  snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", bus);
  return kSuccess;
}

EXPORT int nvmlInit_v2(void) {
  return getenv("FAKE_NVML_BROKEN") == NULL ? kSuccess : kDriverNotLoaded;
}
EXPORT int nvmlShutdown(void) { return kSuccess; }
EXPORT const char* nvmlErrorString(int result) {
  return result == kDriverNotLoaded ? "Driver Not Loaded" : "Unknown Error";
}

EXPORT int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return kSuccess;
}
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, NvmlDevice** device) {
  if (index > 1) return kInvalidArgument;
  *device = &devices[index];
  return kSuccess;
}
EXPORT int nvmlDeviceGetPciInfo_v3(NvmlDevice* device, PciInfo* info) {
  return locate(info, device->bus);
}
EXPORT int nvmlDeviceGetName(NvmlDevice* device, char* text, unsigned bytes) {
  (void)device;
  snprintf(text, bytes, "Fake H100");
  return kSuccess;
}
EXPORT int nvmlDeviceGetCudaComputeCapability(NvmlDevice* device, int* major, int* minor) {
  (void)device;
  *major = 9;
  *minor = 0;
  return kSuccess;
}

EXPORT int nvmlDeviceGetNvLinkState(NvmlDevice* device, unsigned link, int* enabled) {
  if (link >= (is_first(device) ? 7U : 4U)) return kInvalidArgument;
  *enabled = !(is_first(device) && link == 3);
  return kSuccess;
}
EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(NvmlDevice* device, unsigned link, PciInfo* info) {
  if (!is_first(device) && link >= 2) return kNotSupported;
  return locate(info, is_first(device) ? 0xe0 : devices[0].bus);
}
EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(NvmlDevice* device, unsigned link, int* type) {
  *type = is_first(device) ? 2 : link < 2 ? 0 : 1;
  return kSuccess;
}

EXPORT int nvmlDeviceGetFieldValues(NvmlDevice* device, int count, FieldValue* values) {
  for (int i = 0; i < count; ++i) {
    values[i].type = 1;
    values[i].result = is_first(device) ? kNotSupported : kSuccess;
    if (values[i].field == 170) values[i].value.unsigned_int = 3;
    if (values[i].field == 171) values[i].value.unsigned_int = values[i].scope != 1;
    if (values[i].field == 172) values[i].value.unsigned_int = 40000;
  }
  return kSuccess;
}
EXPORT int nvmlDeviceGetGpuFabricInfo(NvmlDevice* device, FabricInfo* info) {
  memset(info, 0, sizeof *info);
  if (!is_first(device)) return kSuccess; /* of no cluster */
  info->cluster[0] = 0xab;
  info->cluster[15] = 0x01;
  info->clique = 5;
  info->state = 3;
  return kSuccess;
}
