// A machine in one line of text, made of presets:
//
//   dgx-h100
//   4x dgx-h100 over rail-optimised
//   512x dgx-h100 over fat-tree:tiers=2,oversubscription=2
//   16x tpu-v4 over torus:sizes=4x4x4 with router0.0.0 at 0.5
//   4x ./my_host.json over rail-only with leaf3 to spine* at 0.5 with h0/nic2 at 0
//
//   text     = [ COUNT "x" ] HOST [ "over" FABRIC [ ":" setting { "," setting } ] ] { slow }
//   setting  = PARAMETER "=" ( NUMBER | COUNT { "x" COUNT } )
//   slow     = "with" NODES [ "to" NODES ] "at" FACTOR
//
// Words are separated by blanks. HOST and FABRIC are names of presets or paths (find_preset());
// parameters are those of the fabric's kind (fabric_parameters()), and replace what the preset
// says. Several hosts need a fabric. NODES are names as in LinkSelector, FACTOR is from 0 to 1:
// what is left of the bandwidth of these links. Each `with` applies to what the ones before left.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "src/topo/model/topology.hpp"
#include "tools/fabric/fabric.hpp"
#include "tools/machines/degrade.hpp"
#include "tools/machines/preset.hpp"

namespace tutti::topo {

/// What such a text says. A value.
struct Machine {
  struct Slow {
    LinkSelector links;
    double factor = 1;
  };

  Topology host;
  std::optional<FabricShape> fabric;  ///< without one: a single host as it is
  std::vector<Slow> slow;
};

inline constexpr std::size_t kLongestMachineText = 4096;

/// kInvalidArgument names the column, what stands there and what was expected; errors of `lookup`
/// stand behind the column of the name.
Result<Machine> parse_machine(std::string_view text, const PresetLookup& lookup = find_preset);

/// Errors are those of join() and degraded().
Result<Topology> build(const Machine& machine);

/// Both.
Result<Topology> machine_topology(std::string_view text);

}  // namespace tutti::topo
