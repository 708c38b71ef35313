#include "transports/verbs/rails.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <string_view>

#include <ifaddrs.h>
#include <netinet/in.h>

#include "src/base/result.hpp"

namespace tutti::verbs {
namespace {

constexpr std::uint8_t kMappedBits = 96;  // before an IPv4 address in a GID
constexpr std::uint8_t kInfiniBandPrefix = 64;

/// One name of the wishes: "mlx5_1" or "mlx5_1:2".
struct Wish {
  std::string name;
  int port = 0;  // 0: any
};

struct ParsedWishes {
  bool excludes = false;
  bool exact = false;
  std::vector<Wish> list;
};

Result<ParsedWishes> parse(const std::string& text) {
  ParsedWishes parsed;
  std::string_view rest = text;
  if (rest.starts_with('^')) parsed.excludes = true, rest.remove_prefix(1);
  if (rest.starts_with('=')) parsed.exact = true, rest.remove_prefix(1);
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view entry = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const std::size_t colon = entry.find(':');
    Wish wish{.name = std::string(entry.substr(0, colon))};
    if (colon != std::string_view::npos) {
      const std::string_view port = entry.substr(colon + 1);
      if (port.size() != 1 || port[0] < '1' || port[0] > '9')
        return make_error(Code::kInvalidArgument,
                          "'{}' in the list of devices '{}' names no port: write mlx5_0:1", entry,
                          text);
      wish.port = port[0] - '0';
    }
    if (wish.name.empty())
      return make_error(Code::kInvalidArgument,
                        "the list of devices '{}' has an empty name: write mlx5_0,mlx5_1:1", text);
    parsed.list.push_back(std::move(wish));
  }
  return parsed;
}

bool is_wished(const ParsedWishes& wishes, const std::string& device, int port) {
  if (wishes.list.empty()) return true;
  const bool named = std::ranges::any_of(wishes.list, [&](const Wish& wish) {
    return (wish.port == 0 || wish.port == port) &&
           (wishes.exact ? device == wish.name : device.starts_with(wish.name));
  });
  return named != wishes.excludes;
}

bool is_near(const NearPorts& near, const Rail& rail) {
  return std::ranges::any_of(near.ports, [&](const std::string& name) {
    return name == rail.device || name == fmt::format("{}:{}", rail.device, rail.port);
  });
}

/// How far an address reaches; 0: it is of no use.
int reach_of(const GidEntry& entry) {
  if (entry.type == GidType::kInfiniBand) return 1;
  if (entry.type == GidType::kRoceV1) return 0;  // never leaves its subnet, and few still speak it
  if (is_ipv4(entry.gid)) return 4;
  return is_link_local(entry.gid) ? 2 : 3;
}

bool same_bits(const Gid& a, const Gid& b, unsigned bits) {
  const unsigned bytes = bits / 8;
  if (!std::equal(a.begin(), a.begin() + bytes, b.begin())) return false;
  const unsigned rest = bits % 8;
  return rest == 0 || (a[bytes] ^ b[bytes]) >> (8 - rest) == 0;
}

/// Whether they speak the same language at all.
bool can_talk(const Rail& a, const Rail& b) {
  return a.link == b.link && a.type == b.type && is_ipv4(a.gid) == is_ipv4(b.gid);
}

bool share_subnet(const Rail& a, const Rail& b) {
  if (!can_talk(a, b)) return false;
  const unsigned bits =
      a.link == LinkLayer::kInfiniBand ? kInfiniBandPrefix : std::min(a.prefix_bits, b.prefix_bits);
  return bits > 0 && same_bits(a.gid, b.gid, bits);
}

bool is_routable(const Rail& rail) {
  return rail.type == GidType::kRoceV2 && !is_link_local(rail.gid);
}

std::string list_of(std::span<const Rail> rails) {
  std::string text;
  for (const Rail& rail : rails) text += (text.empty() ? "" : ", ") + describe(rail);
  return text.empty() ? "none" : text;
}

/// Matches the rails that `fits` allows, in order; those of the shorter side come several times.
template <class Fits>
std::vector<std::pair<std::size_t, std::size_t>> matched(std::span<const Rail> own,
                                                         std::span<const Rail> peer,
                                                         const Fits& fits) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  std::vector<unsigned> uses(peer.size());
  std::vector<bool> met(peer.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    std::size_t best = peer.size();
    for (std::size_t j = 0; j < peer.size(); ++j)
      if (fits(own[i], peer[j]) && (best == peer.size() || uses[j] < uses[best])) best = j;
    if (best == peer.size()) continue;
    ++uses[best];
    pairs.emplace_back(i, best);
  }
  // What is left of the longer side.
  std::vector<unsigned> own_uses(own.size());
  for (const auto& [i, j] : pairs) met[j] = true, ++own_uses[i];
  for (std::size_t j = 0; j < peer.size(); ++j) {
    if (met[j]) continue;
    std::size_t best = own.size();
    for (std::size_t i = 0; i < own.size(); ++i)
      if (fits(own[i], peer[j]) && (best == own.size() || own_uses[i] < own_uses[best])) best = i;
    if (best == own.size()) continue;
    ++own_uses[best];
    pairs.emplace_back(best, j);
  }
  return pairs;
}

}  // namespace

std::string describe(const Rail& rail) {
  const std::string where = rail.link == LinkLayer::kInfiniBand
                                ? fmt::format("LID {}", rail.lid)
                                : fmt::format("{}, {}", to_string(rail.gid), name_of(rail.type));
  return fmt::format("{}:{} ({}, MTU {})", rail.device, rail.port, where, rail.mtu);
}

void mark_far(std::span<Rail> rails, const NearPorts& near) {
  const bool some =
      std::ranges::any_of(rails, [&](const Rail& rail) { return is_near(near, rail); });
  for (Rail& rail : rails) rail.far = some && !is_near(near, rail);
}

std::string describe_choice(std::span<const Rail> rails, const NearPorts& near) {
  const bool some_far = std::ranges::any_of(rails, &Rail::far);
  std::string text;
  for (const Rail& rail : rails) {
    if (!text.empty()) text += "; ";
    text += describe(rail);
    if (rail.far)
      text += fmt::format(", far from {}: one such port is in reserve", near.seen_from);
    else if (some_far)
      text += fmt::format(", {}", near.place);
  }
  return text;
}

const GidEntry* best_gid(const PortFacts& port) {
  const GidEntry* best = nullptr;
  for (const GidEntry& entry : port.gids)
    if (reach_of(entry) > (best == nullptr ? 0 : reach_of(*best))) best = &entry;
  return best;
}

Result<ChosenRails> choose_rails(std::span<const DeviceFacts> devices, const PortWishes& wishes,
                                 PrefixOf prefix_of) {
  TUTTI_ASSIGN(const ParsedWishes parsed, parse(wishes.devices));
  ChosenRails chosen;
  for (const DeviceFacts& device : devices)
    for (const PortFacts& port : device.ports) {
      const auto leave = [&](std::string why) {
        chosen.left_out.push_back(
            fmt::format("{}:{} is not used: {}", device.name, port.number, why));
      };
      if (!is_wished(parsed, device.name, port.number)) {
        leave("the list of devices leaves it out");
        continue;
      }
      if (!port.active) {
        leave(fmt::format("its state is {}", port.state));
        continue;
      }
      const GidEntry* gid = best_gid(port);
      if (wishes.gid_index >= 0) {
        const auto named = std::ranges::find(
            port.gids, static_cast<std::uint32_t>(wishes.gid_index), &GidEntry::index);
        gid = named == port.gids.end() ? nullptr : &*named;
      }
      if (gid == nullptr && port.link != LinkLayer::kInfiniBand) {
        leave(wishes.gid_index >= 0
                  ? fmt::format("its GID table has nothing at index {}", wishes.gid_index)
                  : "its GID table has no RoCE v2 address (has its interface an IP address?)");
        continue;
      }
      Rail rail{.device = device.name,
                .port = port.number,
                .link = port.link,
                .lid = port.lid,
                .mtu = port.mtu,
                .mbit_per_s = port.mbit_per_s,
                .bonded = port.bonded};
      if (gid != nullptr) {
        rail.gid_index = gid->index;
        rail.type = gid->type;
        rail.gid = gid->gid;
        rail.prefix_bits = prefix_of(gid->interface, gid->gid);
      }
      chosen.rails.push_back(std::move(rail));
    }
  return chosen;
}

Result<std::vector<std::pair<std::size_t, std::size_t>>> match_rails(std::span<const Rail> own,
                                                                     std::span<const Rail> peer) {
  auto pairs = matched(own, peer, share_subnet);
  if (pairs.empty())
    pairs = matched(own, peer, [](const Rail& a, const Rail& b) {
      return can_talk(a, b) && is_routable(a) && is_routable(b);
    });
  if (pairs.empty())
    return make_error(Code::kUnsupported,
                      "no RDMA port here meets one of the peer's: here {}; there {}. Both need the "
                      "same link, the same type of GID, and a common subnet or routable addresses",
                      list_of(own), list_of(peer));
  return pairs;
}

std::vector<RailPair> nearest_pairs(std::span<const Rail> own, std::span<const Rail> peer,
                                    std::span<const std::pair<std::size_t, std::size_t>> pairs) {
  const auto distance = [&](const std::pair<std::size_t, std::size_t>& pair) {
    return (own[pair.first].far ? 1 : 0) + (peer[pair.second].far ? 1 : 0);
  };
  const auto by_distance = [&](const auto& a, const auto& b) { return distance(a) < distance(b); };
  const auto nearest = std::ranges::min_element(pairs, by_distance);
  std::vector<RailPair> used;
  for (const auto& pair : pairs)
    if (distance(pair) == distance(*nearest)) used.push_back({pair.first, pair.second});
  std::optional<RailPair> reserve;
  int reserve_distance = 0;
  for (const auto& pair : pairs) {
    if (distance(pair) == distance(*nearest)) continue;
    if (reserve && reserve_distance <= distance(pair)) continue;
    reserve = RailPair{pair.first, pair.second, true};
    reserve_distance = distance(pair);
  }
  if (reserve) used.push_back(*reserve);
  return used;
}

std::uint8_t pairs_of_each_rail(std::span<const Rail> rails, std::uint8_t asked) {
  constexpr std::uint8_t kOfBond = 2;
  return std::ranges::any_of(rails, &Rail::bonded) ? std::max(asked, kOfBond) : asked;
}

std::uint8_t system_prefix(const std::string& interface, const Gid& gid) {
  ifaddrs* all = nullptr;
  if (interface.empty() || ::getifaddrs(&all) != 0) return 0;
  std::uint8_t bits = 0;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_netmask == nullptr || interface != one->ifa_name)
      continue;
    if (one->ifa_addr->sa_family == AF_INET && is_ipv4(gid)) {
      const auto& address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr.s_addr;
      const auto& mask = reinterpret_cast<const sockaddr_in*>(one->ifa_netmask)->sin_addr.s_addr;
      if (std::memcmp(&address, gid.data() + 12, sizeof address) == 0)
        bits = static_cast<std::uint8_t>(kMappedBits + std::popcount(mask));
    } else if (one->ifa_addr->sa_family == AF_INET6 && !is_ipv4(gid)) {
      const auto& address = reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr;
      const auto& mask = reinterpret_cast<const sockaddr_in6*>(one->ifa_netmask)->sin6_addr;
      if (std::memcmp(&address, gid.data(), gid.size()) != 0) continue;
      for (const std::uint8_t byte : mask.s6_addr)
        bits = static_cast<std::uint8_t>(bits + std::popcount(byte));
    }
  }
  ::freeifaddrs(all);
  return bits;
}

}  // namespace tutti::verbs
