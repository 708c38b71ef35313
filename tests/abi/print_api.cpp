// Prints what a header named nccl.h declares: values, layouts, initial bytes and types of
// functions. against_nvidia compiles it with NVIDIA's and with Tutti's; the output must be the
// same. api.inc, made from NVIDIA's header, names every enumerator, macro of a number, and
// function.
#include <cstddef>
#include <cstdio>

#include "nccl.h"

namespace {

template <class T>
const char* name_of_type() {
  return __PRETTY_FUNCTION__;
}

template <class T>
void print_bytes(const char* name, const T& value) {
  std::printf("%s =", name);
  const auto* bytes = reinterpret_cast<const unsigned char*>(&value);
  for (std::size_t i = 0; i < sizeof value; ++i) std::printf(" %02x", bytes[i]);
  std::printf("\n");
}

// Static, so that padding is zero.
const ncclConfig_t kConfig = NCCL_CONFIG_INITIALIZER;
const ncclSimInfo_t kSimInfo = NCCL_SIM_INFO_INITIALIZER;

}  // namespace

#define VALUE(name) std::printf("%s = %.17g\n", #name, static_cast<double>(name))
#define FUNCTION(name) std::printf("%s: %s\n", #name, name_of_type<decltype(name)>())
#define TYPE(type)                                                                     \
  std::printf("%s: size %zu, alignment %zu, %s\n", #type, sizeof(type), alignof(type), \
              name_of_type<type>())
#define FIELD(type, field)                                                     \
  std::printf("%s.%s: offset %zu, %s\n", #type, #field, offsetof(type, field), \
              name_of_type<decltype(type::field)>())

int main() {
#include <api.inc>
  TYPE(ncclComm_t);
  TYPE(ncclWindow_t);
  TYPE(ncclUniqueId);
  TYPE(ncclConfig_t);
  TYPE(ncclSimInfo_t);
  TYPE(ncclResult_t);
  TYPE(ncclRedOp_t);
  TYPE(ncclDataType_t);
  TYPE(ncclScalarResidence_t);
  FIELD(ncclUniqueId, internal);
  FIELD(ncclConfig_t, size);
  FIELD(ncclConfig_t, magic);
  FIELD(ncclConfig_t, version);
  FIELD(ncclConfig_t, blocking);
  FIELD(ncclConfig_t, cgaClusterSize);
  FIELD(ncclConfig_t, minCTAs);
  FIELD(ncclConfig_t, maxCTAs);
  FIELD(ncclConfig_t, netName);
  FIELD(ncclConfig_t, splitShare);
  FIELD(ncclConfig_t, trafficClass);
  FIELD(ncclConfig_t, commName);
  FIELD(ncclConfig_t, collnetEnable);
  FIELD(ncclConfig_t, CTAPolicy);
  FIELD(ncclConfig_t, shrinkShare);
  FIELD(ncclConfig_t, nvlsCTAs);
  FIELD(ncclConfig_t, nChannelsPerNetPeer);
  FIELD(ncclConfig_t, nvlinkCentricSched);
  FIELD(ncclSimInfo_t, size);
  FIELD(ncclSimInfo_t, magic);
  FIELD(ncclSimInfo_t, version);
  FIELD(ncclSimInfo_t, estimatedTime);
  print_bytes("NCCL_CONFIG_INITIALIZER", kConfig);
  print_bytes("NCCL_SIM_INFO_INITIALIZER", kSimInfo);
  return 0;
}
