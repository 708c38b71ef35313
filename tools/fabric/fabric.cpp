#include "tools/fabric/fabric.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>

#include "src/base/result.hpp"
#include "tools/fabric/wiring.hpp"

namespace tutti::topo {
namespace {

using enum FabricKind;

constexpr std::array<std::string_view, kFabricKinds> kNames = {
    "fat-tree", "rail-optimised", "rail-only", "dual-plane", "dragonfly", "dragonfly+",  "torus",
    "hxmesh",   "bcube",          "dcell",     "jellyfish",  "bigraph",   "optical-ring"};

constexpr std::uint32_t of(std::initializer_list<FabricKind> kinds) {
  std::uint32_t bits = 0;
  for (const FabricKind kind : kinds) bits |= 1U << static_cast<unsigned>(kind);
  return bits;
}
constexpr std::uint32_t kAll = (1U << kFabricKinds) - 1;
constexpr std::uint32_t kTrees = of({kFatTree, kRailOptimised, kRailOnly, kDualPlane});
constexpr std::uint32_t kGroups = of({kDragonfly, kDragonflyPlus});
constexpr std::uint32_t kOfSwitches = kTrees | kGroups | of({kJellyfish, kBigraph});

using Shape = FabricShape;
constexpr std::array kParameters = {
    FabricParameter{"link", &Shape::link, 0, 1e6, kAll,
                    "GB/s of a cable between switches, 0 for that of the widest NIC"},
    FabricParameter{"latency", &Shape::latency, 0, 1e6, kAll, "microseconds of a cable"},
    FabricParameter{"radix", &Shape::radix, 2, 1024, kTrees | of({kHammingMesh, kBigraph}),
                    "ports of a switch"},
    FabricParameter{"tiers", &Shape::tiers, 0, 3, kTrees,
                    "of switches at most, 0 for as many as it takes"},
    FabricParameter{"oversubscription", &Shape::oversubscription, 1, 64, kTrees,
                    "of a leaf: its ports down for each one up"},
    FabricParameter{"core_oversubscription", &Shape::core_oversubscription, 1, 64, kTrees,
                    "the same of the middle one of three tiers"},
    FabricParameter{"planes", &Shape::planes, 1, 8, of({kDualPlane}),
                    "networks that share each NIC"},
    FabricParameter{"groups", &Shape::groups, 0, 65536, kGroups, "0 for as many as it takes"},
    FabricParameter{"routers", &Shape::routers, 1, 1024, kGroups,
                    "of a group; of dragonfly+ its leaves"},
    FabricParameter{"spines", &Shape::spines, 1, 1024, of({kDragonflyPlus}), "of a group"},
    FabricParameter{"terminals", &Shape::terminals, 1, 1024, kGroups | of({kJellyfish, kBigraph}),
                    "NICs on a router"},
    FabricParameter{"global", &Shape::global, 1, 1024, kGroups,
                    "cables of a router, or of dragonfly+ a spine, to other groups"},
    FabricParameter{"degree", &Shape::degree, 2, 1024, of({kJellyfish}),
                    "cables of a switch to others"},
    FabricParameter{"seed", &Shape::seed, 0, 4294967295.0, of({kJellyfish}), "of the random graph"},
    FabricParameter{"levels", &Shape::levels, 0, 16, of({kBcube, kDcell}),
                    "of a BCube its levels of switches, of a DCell those above its cells"},
    FabricParameter{"ports", &Shape::ports, 2, 1024, of({kBcube, kDcell}), "hosts on a switch"},
    FabricParameter{"wrap", &Shape::wrap, 0, 1, of({kTorus, kOpticalRing}),
                    "1: the last place of a line is joined with the first"},
    FabricParameter{"aggregation", &Shape::aggregation, 0, 1024, kOfSwitches,
                    "groups for which a switch adds at a time, 0: it adds nothing"},
    FabricParameter{"operations", &Shape::operations, 0, 65536, kOfSwitches,
                    "of a group at a time in such a switch, 0: any number"},
    FabricParameter{"adding_latency", &Shape::adding_latency, 0, 1e6, kOfSwitches,
                    "microseconds that such a switch takes to add"},
    FabricParameter{"window", &Shape::window, 0, 1e12, kOfSwitches,
                    "bytes of a group that such a switch keeps for a round trip, 0: no limit"},
    FabricParameter{"sizes", &Shape::sizes, 1, 65536, of({kTorus, kHammingMesh}),
                    "of a torus its lengths, of a Hamming mesh its boards: 4x4"},
    FabricParameter{"board", &Shape::board, 1, 1024, of({kHammingMesh}), "places of a board: 2x2"},
};

Status check_value(const FabricParameter& parameter, double value) {
  if (value >= parameter.least && value <= parameter.most) return ok_status();
  return make_error(Code::kInvalidArgument, "{} is {:g}, but must be from {:g} to {:g}: {}",
                    parameter.name, value, parameter.least, parameter.most, parameter.meaning);
}

Status check_parameter(const FabricParameter& parameter, const FabricShape& shape) {
  if (const auto* number = std::get_if<double Shape::*>(&parameter.member))
    return check_value(parameter, shape.**number);
  if (const auto* count = std::get_if<std::uint32_t Shape::*>(&parameter.member))
    return check_value(parameter, shape.**count);
  const auto& list = shape.*std::get<std::vector<std::uint32_t> Shape::*>(parameter.member);
  if (list.empty())
    return make_error(Code::kInvalidArgument, "a {} needs {}: {}", name_of(shape.kind),
                      parameter.name, parameter.meaning);
  const std::size_t most = shape.kind == kHammingMesh ? 2 : kMostFabricSizes;
  if (list.size() > most)
    return make_error(Code::kInvalidArgument, "{} has {} numbers: a {} takes at most {}",
                      parameter.name, list.size(), name_of(shape.kind), most);
  for (const std::uint32_t length : list) TUTTI_TRY(check_value(parameter, length));
  if (shape.kind == kHammingMesh && list.size() < 2)
    return make_error(Code::kInvalidArgument, "{} has one number: a {} takes two", parameter.name,
                      name_of(shape.kind));
  return ok_status();
}

Status wire(Wiring& wiring, const FabricShape& shape) {
  switch (shape.kind) {
    case kFatTree:
    case kRailOptimised:
    case kRailOnly:
    case kDualPlane:
      return wire_tree(wiring, shape);
    case kDragonfly:
    case kDragonflyPlus:
      return wire_dragonfly(wiring, shape);
    case kTorus:
    case kOpticalRing:
      return wire_torus(wiring, shape);
    case kHammingMesh:
      return wire_hamming_mesh(wiring, shape);
    case kBcube:
      return wire_bcube(wiring, shape);
    case kDcell:
      return wire_dcell(wiring, shape);
    case kJellyfish:
      return wire_jellyfish(wiring, shape);
    case kBigraph:
      return wire_bigraph(wiring, shape);
  }
  return ok_status();
}

bool is_direct(FabricKind kind) {
  return (of({kTorus, kHammingMesh, kBcube, kDcell, kOpticalRing}) >> static_cast<unsigned>(kind) &
          1U) != 0;
}

}  // namespace

std::string_view name_of(FabricKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

std::span<const FabricParameter> fabric_parameters() { return kParameters; }

Status check(const FabricShape& shape) {
  if (shape.hosts < 1 || shape.hosts > kMostFabricHosts)
    return make_error(Code::kInvalidArgument, "{} hosts: a fabric joins from 1 to {}", shape.hosts,
                      kMostFabricHosts);
  for (const FabricParameter& parameter : kParameters)
    if (parameter.belongs_to(shape.kind)) TUTTI_TRY(check_parameter(parameter, shape));
  return ok_status();
}

Result<Topology> join(const Topology& unit, const FabricShape& shape) {
  TUTTI_TRY(check(shape));
  TUTTI_ASSIGN(Wiring wiring, Wiring::create(unit, shape));
  if (wiring.rails() == 0 && !is_direct(shape.kind))
    return make_error(Code::kInvalidArgument,
                      "the host has GPUs with links of their own, which a {} cannot join: take a "
                      "torus",
                      name_of(shape.kind));
  TUTTI_TRY(wire(wiring, shape));
  return std::move(wiring).finish();
}

}  // namespace tutti::topo
