#include "src/capi/config.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <strings.h>

#include "src/base/log.hpp"
#include "src/base/printable.hpp"
#include "src/base/result.hpp"

namespace tutti::capi {
namespace {

constexpr std::size_t kHeaderBytes = offsetof(ncclConfig_t, blocking);
constexpr unsigned kMaxConfigBytes = 4096;  // no version comes near; more is garbage
constexpr int kMaxChannels = 64;
constexpr int kNoLimit = INT_MAX;

/// Legal values of one int field, and the version that brought it.
struct IntField {
  int ncclConfig_t::* member;
  const char* name;
  int lowest;
  int highest;
  unsigned since;
};

constexpr IntField kIntFields[] = {
    {&ncclConfig_t::blocking, "blocking", 0, 1, NCCL_VERSION(2, 14, 0)},
    {&ncclConfig_t::cgaClusterSize, "cgaClusterSize", 0, 8, NCCL_VERSION(2, 17, 0)},
    {&ncclConfig_t::minCTAs, "minCTAs", 1, kNoLimit, NCCL_VERSION(2, 17, 0)},
    {&ncclConfig_t::maxCTAs, "maxCTAs", 1, kNoLimit, NCCL_VERSION(2, 17, 0)},
    {&ncclConfig_t::splitShare, "splitShare", 0, 1, NCCL_VERSION(2, 18, 0)},
    {&ncclConfig_t::trafficClass, "trafficClass", 0, kNoLimit, NCCL_VERSION(2, 25, 0)},
    {&ncclConfig_t::collnetEnable, "collnetEnable", 0, 1, NCCL_VERSION(2, 27, 0)},
    {&ncclConfig_t::CTAPolicy, "CTAPolicy", 0, NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO,
     NCCL_VERSION(2, 27, 0)},
    {&ncclConfig_t::shrinkShare, "shrinkShare", 0, 1, NCCL_VERSION(2, 27, 0)},
    {&ncclConfig_t::nvlsCTAs, "nvlsCTAs", 1, kNoLimit, NCCL_VERSION(2, 27, 0)},
    {&ncclConfig_t::nChannelsPerNetPeer, "nChannelsPerNetPeer", 1, kMaxChannels,
     NCCL_VERSION(2, 28, 0)},
    {&ncclConfig_t::nvlinkCentricSched, "nvlinkCentricSched", 0, 1, NCCL_VERSION(2, 28, 0)},
};

/// The caller's structure in our layout: what it does not know is undefined.
Result<ncclConfig_t> in_our_layout(const ncclConfig_t& theirs) {
  if (theirs.magic != NCCL_API_MAGIC) {
    return make_error(Code::kInvalidArgument,
                      "config.magic is {:#x}, not {:#x}: begin with NCCL_CONFIG_INITIALIZER",
                      theirs.magic, NCCL_API_MAGIC);
  }
  if (theirs.size < kHeaderBytes || theirs.size > kMaxConfigBytes) {
    return make_error(Code::kInvalidArgument,
                      "config.size is {}, not between {} and {}: begin with "
                      "NCCL_CONFIG_INITIALIZER",
                      theirs.size, kHeaderBytes, kMaxConfigBytes);
  }
  ncclConfig_t ours = NCCL_CONFIG_INITIALIZER;
  std::memcpy(&ours, &theirs, std::min(theirs.size, sizeof ours));
  for (const IntField& field : kIntFields) {
    if (ours.version < field.since) ours.*field.member = NCCL_CONFIG_UNDEF_INT;
  }
  if (ours.version < NCCL_VERSION(2, 17, 0)) ours.netName = nullptr;
  if (ours.version < NCCL_VERSION(2, 27, 0)) ours.commName = nullptr;
  return ours;
}

Status check_ranges(const ncclConfig_t& config) {
  for (const IntField& field : kIntFields) {
    const int value = config.*field.member;
    if (value == NCCL_CONFIG_UNDEF_INT) continue;
    if (value < field.lowest || value > field.highest) {
      return make_error(Code::kInvalidArgument, "config.{} is {}, not {}{}", field.name, value,
                        field.highest == kNoLimit
                            ? fmt::format("at least {}", field.lowest)
                            : fmt::format("between {} and {}", field.lowest, field.highest),
                        "; leave it NCCL_CONFIG_UNDEF_INT for the default");
    }
  }
  if (config.minCTAs != NCCL_CONFIG_UNDEF_INT && config.maxCTAs != NCCL_CONFIG_UNDEF_INT &&
      config.minCTAs > config.maxCTAs) {
    return make_error(Code::kInvalidArgument, "config.minCTAs {} is above config.maxCTAs {}",
                      config.minCTAs, config.maxCTAs);
  }
  return ok_status();
}

/// Between hosts there is TCP, which NCCL calls Socket.
void note_network(const char* net_name) {
  if (net_name == nullptr || strcasecmp(net_name, "Socket") == 0) return;
  log_warn("", "config.netName asks for the network '{}', which is not here: hosts talk by TCP",
           without_controls(net_name));
}

}  // namespace

Result<CommConfig> parse_config(const ncclConfig_t* config, const CommConfig& defaults) {
  CommConfig parsed = defaults;
  if (config == nullptr) return parsed;
  TUTTI_ASSIGN(const ncclConfig_t ours, in_our_layout(*config));
  TUTTI_TRY(check_ranges(ours));
  note_network(ours.netName);
  if (ours.blocking != NCCL_CONFIG_UNDEF_INT) parsed.blocking = ours.blocking != 0;
  if (ours.commName != nullptr) parsed.name = ours.commName;
  return parsed;
}

}  // namespace tutti::capi
