// Which ports of which devices this process uses, and which of them meet which of a peer's. Pure
// functions over what the devices and the peer tell.
//
// A rail is a port with the address that it is reached by. Rails of two hosts are matched by
// subnet: what a subnet separates would need a router, which most clusters do not have between
// rails.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/verbs/facts.hpp"
#include "tutti/error.hpp"

namespace tutti::verbs {

/// What the user asks for.
struct PortWishes {
  /// "mlx5_0,mlx5_1:1": these devices and ports, by the start of their names. "^mlx5_2": all but
  /// these. "=mlx5_1": names in full; "^=" both. Empty: all.
  std::string devices{};
  /// Index in the GID table; -1: the best one.
  int gid_index = -1;
};

struct Rail {
  std::string device;
  std::uint8_t port = 1;
  LinkLayer link = LinkLayer::kEthernet;
  std::uint32_t gid_index = 0;
  GidType type = GidType::kRoceV2;
  Gid gid{};
  std::uint8_t prefix_bits = 0;  ///< of the subnet in `gid`; 0: not known
  std::uint16_t lid = 0;
  std::uint32_t mtu = 0;
  std::uint32_t mbit_per_s = 0;
  bool bonded = false;  ///< several cables; known of own rails only
  bool far = false;     ///< others are nearer to the process
  friend bool operator==(const Rail&, const Rail&) = default;
};

/// "mlx5_0:1 (10.0.0.1, RoCE v2, MTU 4096)"
std::string describe(const Rail& rail);

/// Which ports are near to this process, and why.
struct NearPorts {
  std::vector<std::string> ports{};  ///< as in "mlx5_0:2"; a device alone: all of its ports
  std::string place{};               ///< of these: "on the PCI switch of gpu3 (PIX)"
  std::string seen_from{};           ///< "gpu3"
};
/// Marks those that are not near. All are alike where no rail is near.
void mark_far(std::span<Rail> rails, const NearPorts& near);
/// Which ports are used, and why.
std::string describe_choice(std::span<const Rail> rails, const NearPorts& near);

struct ChosenRails {
  std::vector<Rail> rails;            ///< in the order of the devices
  std::vector<std::string> left_out;  ///< a sentence for each port that is not used
};

/// Length of the subnet's prefix of an address of this machine, in bits of its GID; 0: not known.
using PrefixOf = std::uint8_t (*)(const std::string& interface, const Gid& gid);

/// kInvalidArgument if the wishes cannot be read.
Result<ChosenRails> choose_rails(std::span<const DeviceFacts> devices, const PortWishes& wishes,
                                 PrefixOf prefix_of);

/// The address of a port that reaches farthest: RoCE v2 before v1, IPv4 before global IPv6 before
/// link-local. Null if the table has none that is of use.
const GidEntry* best_gid(const PortFacts& port);

/// Pairs of indices into `own` and `peer`. Rails of one subnet are matched in order, those of the
/// shorter side several times. Without a common subnet, routable ones are matched in order.
/// kUnsupported, with both sides' addresses, if none can meet.
Result<std::vector<std::pair<std::size_t, std::size_t>>> match_rails(std::span<const Rail> own,
                                                                     std::span<const Rail> peer);

/// Two rails that meet.
struct RailPair {
  std::size_t own = 0, peer = 0;
  bool in_reserve = false;  ///< used only while none of the others works
  friend bool operator==(const RailPair&, const RailPair&) = default;
};
/// Of pairs that match_rails() found, those to use: the ones that are nearest on both sides, in
/// order, and the first of the others in reserve.
std::vector<RailPair> nearest_pairs(std::span<const Rail> own, std::span<const Rail> peer,
                                    std::span<const std::pair<std::size_t, std::size_t>> pairs);

/// Queue pairs for each pair of rails: at least two where a rail has several cables, since a queue
/// pair takes one of them.
std::uint8_t pairs_of_each_rail(std::span<const Rail> rails, std::uint8_t asked);

/// The prefix by the interface's netmask, from the system.
std::uint8_t system_prefix(const std::string& interface, const Gid& gid);

}  // namespace tutti::verbs
