// What is known of RDMA devices: values that are read, compared and printed. No verbs here.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::verbs {

enum class LinkLayer : std::uint8_t { kUnknown, kInfiniBand, kEthernet };
enum class GidType : std::uint8_t { kInfiniBand, kRoceV1, kRoceV2 };

/// The 16 bytes that address a port. On Ethernet: an IPv6 address, or an IPv4 address mapped into
/// one.
using Gid = std::array<std::uint8_t, 16>;

struct GidEntry {
  Gid gid{};
  std::uint32_t index = 0;
  GidType type = GidType::kInfiniBand;
  std::string interface{};  ///< of the network, "eth0"; empty: none, or not known
  friend bool operator==(const GidEntry&, const GidEntry&) = default;
};

struct PortFacts {
  std::uint8_t number = 1;
  bool active = false;
  std::string state{};  ///< "ACTIVE", "DOWN", ...
  LinkLayer link = LinkLayer::kUnknown;
  std::uint32_t mtu = 0;  ///< bytes of payload of a packet, as it is now
  std::uint32_t most_mtu = 0;
  std::uint32_t mbit_per_s = 0;
  std::uint32_t most_message = 0;  ///< bytes
  std::uint16_t lid = 0;
  int traffic_class = -1;  ///< that the administrator gave all its packets; -1: none, or not known
  bool bonded = false;     ///< several cables behind it: a queue pair takes one of them
  std::vector<GidEntry> gids{};  ///< by index; entries that are not set are left out
};

struct DeviceFacts {
  std::string name;    ///< "mlx5_0"
  std::string driver;  ///< of the kernel, "mlx5_core"; empty: not known
  std::string pci;     ///< "0000:17:00.0"; empty: not a PCI device
  int numa = -1;
  std::uint64_t guid = 0;
  std::string firmware;
  std::uint32_t most_queue_pairs = 0;
  std::uint32_t most_work_requests = 0;  ///< of one queue
  std::uint32_t most_completions = 0;    ///< of one completion queue
  std::uint32_t most_regions = 0;
  std::uint64_t most_region_bytes = 0;
  std::vector<PortFacts> ports;
};

/// "fe80::1", "10.0.0.1" where it is a mapped IPv4 address.
std::string to_string(const Gid& gid);
/// "InfiniBand", "RoCE v1", "RoCE v2".
std::string_view name_of(GidType type);

bool is_ipv4(const Gid& gid);
/// fe80::/10: reaches one subnet only.
bool is_link_local(const Gid& gid);
bool is_zero(const Gid& gid);

}  // namespace tutti::verbs
