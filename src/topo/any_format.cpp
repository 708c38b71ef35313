#include "src/topo/any_format.hpp"

#include <utility>

#include "src/base/result.hpp"
#include "src/base/whole_file.hpp"
#include "src/topo/detect.hpp"
#include "src/topo/hwloc_xml.hpp"
#include "src/topo/json.hpp"
#include "src/topo/nccl_xml.hpp"
#include "src/topo/recorded.hpp"

namespace tutti::topo {
namespace {

struct Format {
  std::string_view name;
  Result<Noted> (*read)(std::string_view);
};

constexpr Format kFormats[] = {
    {"NCCL XML", read_nccl_xml},
    {"hwloc XML", [](std::string_view text) { return read_hwloc_xml(text, ""); }},
    {"Tutti JSON",
     [](std::string_view text) -> Result<Noted> {
       TUTTI_ASSIGN(Topology topology, parse_topology_json(text));
       return Noted{std::move(topology), {}};
     }},
    {"recorded machine", read_recording},
};

}  // namespace

Result<Noted> read_any_format(std::string_view text, std::string_view name) {
  std::string failures;
  for (const Format& format : kFormats) {
    Result<Noted> noted = format.read(text);
    if (noted) return noted;
    failures += fmt::format("\n  {}: {}", format.name, noted.error().what);
  }
  return make_error(Code::kInvalidArgument, "'{}' is no topology in a format that is read:{}", name,
                    failures);
}

Result<Noted> read_topology_file(const std::string& path) {
  TUTTI_ASSIGN(const std::string text, read_file(path, kMostJsonBytes));
  return read_any_format(text, path);
}

Result<Noted> read_recording(std::string_view text) {
  TUTTI_ASSIGN(Recording recording, Recording::parse(text));
  RecordedProbe probe(std::move(recording));
  return detect(probe);
}

}  // namespace tutti::topo
