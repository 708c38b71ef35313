#include "transports/switch/tree_places.hpp"

#include <map>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"
#include "src/switch/packet.hpp"

namespace tutti::in_network {

Blob encode(std::span<const SwitchId> switches) {
  Blob message;
  ByteWriter writer(message);
  for (const SwitchId each : switches) writer.put(each);
  return message;
}

Result<std::vector<SwitchId>> switches_of(std::span<const Blob> told, std::size_t groups,
                                          std::size_t group, std::span<const Rank> members) {
  std::vector<SwitchId> switches;
  for (const Rank rank : members) {
    const Blob& message = told[static_cast<std::size_t>(rank)];
    if (message.size() != groups * sizeof(SwitchId))
      return make_error(Code::kUnavailable,
                        "rank {} tells {} bytes about its switches, where {} are due", rank,
                        message.size(), groups * sizeof(SwitchId));
    const auto own = std::span(message).subspan(group * sizeof(SwitchId));
    switches.push_back(ByteReader(own).get<SwitchId>());
    if (switches.back() == 0)
      return make_error(Code::kUnavailable, "rank {} does not reach its switch", rank);
  }
  return switches;
}

Result<std::vector<TreePlace>> places_in_tree(std::span<const SwitchId> switches) {
  struct Leaf {
    std::uint32_t number = 0;
    std::uint32_t workers = 0;
  };
  std::map<SwitchId, Leaf> leaves;
  std::vector<TreePlace> places;
  for (const SwitchId each : switches) {
    Leaf& leaf =
        leaves.try_emplace(each, Leaf{static_cast<std::uint32_t>(leaves.size())}).first->second;
    places.push_back({.leaf = leaf.number, .worker = leaf.workers++});
  }
  for (std::size_t member = 0; member < places.size(); ++member) {
    places[member].leaves = static_cast<std::uint32_t>(leaves.size());
    places[member].workers = leaves.at(switches[member]).workers;
    if (places[member].workers > kMostWorkers)
      return make_error(Code::kUnsupported,
                        "{} hosts are at one switch, which adds for at most {}: start more of them "
                        "below a common one, by `tutti switch --above`, and share the hosts out",
                        places[member].workers, kMostWorkers);
  }
  if (leaves.size() > kMostWorkers)
    return make_error(
        Code::kUnsupported,
        "the hosts are at {} switches, and the one above them adds for at most {}: let "
        "more hosts share a switch",
        leaves.size(), kMostWorkers);
  return places;
}

}  // namespace tutti::in_network
