#include "tools/topo_source.hpp"

#include <filesystem>
#include <string_view>
#include <utility>

#include "src/base/result.hpp"
#include "src/topo/detect.hpp"
#include "src/topo/hwloc_xml.hpp"
#include "src/topo/json.hpp"
#include "src/topo/machine.hpp"
#include "src/topo/nccl_xml.hpp"
#include "src/topo/recorded.hpp"
#include "src/topo/synthetic.hpp"
#include "tools/cli.hpp"

namespace tutti::tools {
namespace {

using topo::Noted;
using topo::Topology;

Result<Noted> without_assumptions(Result<Topology> topology) {
  if (!topology) return std::move(topology).error();
  return Noted{*std::move(topology), {}};
}

Result<Noted> read_recording(std::string_view text) {
  TUTTI_ASSIGN(topo::Recording recording, topo::Recording::parse(text));
  topo::RecordedProbe probe(std::move(recording));
  return topo::detect(probe);
}

struct Format {
  std::string_view name;
  Result<Noted> (*read)(std::string_view);
};

constexpr Format kFormats[] = {
    {"NCCL XML", [](std::string_view text) { return topo::read_nccl_xml(text); }},
    {"hwloc XML", [](std::string_view text) { return topo::read_hwloc_xml(text, ""); }},
    {"Tutti JSON",
     [](std::string_view text) { return without_assumptions(topo::parse_topology_json(text)); }},
    {"recorded machine", read_recording},
};

Result<Noted> read_any(const std::string& path, std::string_view text) {
  std::string failures;
  for (const Format& format : kFormats) {
    Result<Noted> noted = format.read(text);
    if (noted) return noted;
    failures += fmt::format("\n  {}: {}", format.name, noted.error().what);
  }
  return make_error(Code::kInvalidArgument, "'{}' is no topology in a format that is read:{}", path,
                    failures);
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
  if (!source.preset.empty()) {
    Result<Topology> topology = topo::machine_topology(source.preset);
    if (!topology)
      return make_error(topology.error().code, "--preset '{}': {}", source.preset,
                        topology.error().what);
    return NamedTopology{source.preset, {*std::move(topology), {}}};
  }
  const std::string& path = source.from.empty() ? source.machine : source.from;
  if (path.empty()) {
    topo::RealProbe probe;
    TUTTI_ASSIGN(Noted noted, topo::detect(probe));
    return NamedTopology{"this machine", std::move(noted)};
  }
  const std::string name = std::filesystem::path(path).filename();
  TUTTI_ASSIGN(const std::string text, read_file(path, topo::kMostJsonBytes));
  if (!source.from.empty()) {
    TUTTI_ASSIGN(Noted noted, read_any(path, text));
    return NamedTopology{name, std::move(noted)};
  }
  Result<Noted> noted = read_recording(text);
  if (!noted)
    return make_error(noted.error().code, "'{}' is no recorded machine: {}", path,
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
