#include "tools/topo/source.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "src/base/result.hpp"
#include "src/base/whole_file.hpp"
#include "src/topo/detect/any_format.hpp"
#include "src/topo/detect/detect.hpp"
#include "src/topo/detect/recorded.hpp"
#include "src/topo/format/json.hpp"
#include "tools/machines/machine.hpp"
#include "tools/machines/synthetic.hpp"
#include "tools/program/cli.hpp"

namespace tutti::tools {

using topo::Noted;
using topo::Topology;

namespace {

/// A machine of one line of text, and what it is without its slow links.
Result<NamedTopology> load_preset(const std::string& text) {
  const auto build = [&]() -> Result<NamedTopology> {
    TUTTI_ASSIGN(topo::Machine machine, topo::parse_machine(text));
    TUTTI_ASSIGN(Topology topology, topo::build(machine));
    NamedTopology named{text, {std::move(topology), {}}};
    if (machine.slow.empty()) return named;
    machine.slow.clear();
    TUTTI_ASSIGN(named.whole, topo::build(machine));
    return named;
  };
  Result<NamedTopology> named = build();
  if (named) return named;
  return make_error(named.error().code, "--preset '{}': {}", text, named.error().what);
}

Result<Noted> this_machine(const std::optional<InterfaceSpeed>& measured) {
  topo::RealProbe real;
  if (!measured) return topo::detect(real);
  MeasuredProbe probe(real, *measured);
  TUTTI_ASSIGN(Noted noted, topo::detect(probe));
  note(fmt::format("{}\n", probe.sentence()));
  return noted;
}

}  // namespace

Result<NamedTopology> load_topology(const TopologySource& source) {
  if (!source.synthetic.empty()) {
    Result<Topology> topology = topo::synthetic_topology(source.synthetic);
    if (!topology)
      return make_error(topology.error().code, "--synthetic '{}': {}", source.synthetic,
                        topology.error().what);
    return NamedTopology{source.synthetic, {*std::move(topology), {}}};
  }
  if (!source.preset.empty()) return load_preset(source.preset);
  const std::string& path = source.from.empty() ? source.machine : source.from;
  if (path.empty()) {
    TUTTI_ASSIGN(Noted noted, this_machine(source.measured));
    return NamedTopology{"this machine", std::move(noted)};
  }
  const std::string name = std::filesystem::path(path).filename();
  if (!source.from.empty()) {
    TUTTI_ASSIGN(Noted noted, topo::read_topology_file(path));
    return NamedTopology{name, std::move(noted)};
  }
  TUTTI_ASSIGN(const std::string text, read_file(path, topo::kMostJsonBytes));
  Result<Noted> noted = topo::read_recording(text);
  if (!noted)
    return make_error(Code::kWrongData, "{} is no recorded machine: {}", shown_path(path),
                      noted.error().what);
  return NamedTopology{name, *std::move(noted)};
}

Result<std::string> record_this_machine() {
  topo::RealProbe real;
  topo::RecordingProbe probe(real);
  TUTTI_TRY(topo::detect(probe));
  return probe.recording().text();
}

}  // namespace tutti::tools
