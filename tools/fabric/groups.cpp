// Dragonfly and dragonfly+: groups of routers, each pair of groups joined by equally many cables.
#include <string>
#include <vector>

#include "src/base/result.hpp"
#include "tools/fabric/wiring.hpp"

namespace tutti::topo {
namespace {

/// What a group needs to be joined with others.
struct Groups {
  std::uint32_t count = 0;
  std::vector<std::vector<NodeId>> exits;  // of each group, the routers with global cables
  std::uint32_t global = 0;                // cables of each of them
};

/// Of g groups with c cables each, a pair gets floor(c / (g - 1)): those of group a to group b are
/// the ones at position b - a - 1 (mod g), so that each group meets its neighbours in one order.
void join_groups(Wiring& wiring, const Groups& groups) {
  if (groups.count < 2) return;
  const auto cables = static_cast<std::uint32_t>(groups.exits[0].size()) * groups.global;
  const std::uint32_t of_pair = cables / (groups.count - 1);
  const auto exit = [&](std::uint32_t from, std::uint32_t to, std::uint32_t i) {
    const std::uint32_t position = (to + groups.count - from - 1) % groups.count;
    return groups.exits[from][(position * of_pair + i) / groups.global];
  };
  for (std::uint32_t a = 0; a < groups.count; ++a)
    for (std::uint32_t b = a + 1; b < groups.count; ++b)
      for (std::uint32_t i = 0; i < of_pair; ++i) wiring.cable(exit(a, b, i), exit(b, a, i));
}

Result<std::uint32_t> group_count(const Wiring& wiring, const FabricShape& shape) {
  const std::uint64_t ports = std::uint64_t{wiring.hosts()} * wiring.rails();
  const std::uint64_t of_group = std::uint64_t{shape.routers} * shape.terminals;
  const std::uint64_t needed = (ports + of_group - 1) / of_group;
  const std::uint64_t count = shape.groups == 0 ? needed : shape.groups;
  if (count < needed)
    return make_error(Code::kInvalidArgument,
                      "{} groups of {} routers with {} terminals each have {} ports for NICs, but "
                      "the hosts have {}",
                      count, shape.routers, shape.terminals, count * of_group, ports);
  const bool plus = shape.kind == FabricKind::kDragonflyPlus;
  const std::uint64_t cables = std::uint64_t{plus ? shape.spines : shape.routers} * shape.global;
  if (count > cables + 1)
    return make_error(Code::kInvalidArgument,
                      "a group has {} cables to others, so that at most {} groups can be joined: "
                      "{} are too many",
                      cables, cables + 1, count);
  const std::uint64_t inside = plus ? std::uint64_t{shape.routers} * shape.spines
                                    : std::uint64_t{shape.routers} * (shape.routers - 1) / 2;
  TUTTI_TRY(wiring.check_cables(count * (inside + cables)));
  return static_cast<std::uint32_t>(count);
}

}  // namespace

Status wire_dragonfly(Wiring& wiring, const FabricShape& shape) {
  const bool plus = shape.kind == FabricKind::kDragonflyPlus;
  TUTTI_ASSIGN(const std::uint32_t count, group_count(wiring, shape));
  Groups groups{count, {}, shape.global};
  std::vector<NodeId> with_terminals;
  for (std::uint32_t group = 0; group < count; ++group) {
    const auto add = [&](std::string_view kind, std::uint32_t number) {
      return wiring.add_switch(fmt::format("group{}.{}{}", group, kind, number));
    };
    std::vector<NodeId> routers, spines;
    for (std::uint32_t i = 0; i < shape.routers; ++i)
      routers.push_back(add(plus ? "leaf" : "router", i));
    for (std::uint32_t i = 0; plus && i < shape.spines; ++i) spines.push_back(add("spine", i));
    for (std::size_t i = 0; i < routers.size(); ++i) {
      for (const NodeId spine : spines) wiring.cable(routers[i], spine);
      for (std::size_t j = i + 1; !plus && j < routers.size(); ++j)
        wiring.cable(routers[i], routers[j]);
    }
    with_terminals.insert(with_terminals.end(), routers.begin(), routers.end());
    groups.exits.push_back(plus ? spines : routers);
  }
  const auto ports = wiring.ports();
  for (std::size_t i = 0; i < ports.size(); ++i)
    wiring.plug(ports[i], with_terminals[i / shape.terminals]);
  join_groups(wiring, groups);
  return ok_status();
}

}  // namespace tutti::topo
