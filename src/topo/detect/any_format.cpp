#include "src/topo/detect/any_format.hpp"

#include <algorithm>
#include <utility>

#include "src/base/result.hpp"
#include "src/base/whole_file.hpp"
#include "src/topo/detect/detect.hpp"
#include "src/topo/detect/recorded.hpp"
#include "src/topo/format/json.hpp"
#include "src/topo/hwloc/xml.hpp"
#include "src/topo/model/words.hpp"
#include "src/topo/nccl/xml.hpp"
#include "src/topo/smi/matrix.hpp"

namespace tutti::topo {
namespace {

struct Format {
  std::string_view name;
  Result<Noted> (*read)(std::string_view);
};

constexpr Format kNcclXml = {"NCCL's XML", read_nccl_xml};
constexpr Format kHwlocXml = {"hwloc's XML",
                              [](std::string_view text) { return read_hwloc_xml(text, ""); }};
constexpr Format kJson = {"Tutti's JSON", [](std::string_view text) -> Result<Noted> {
                            TUTTI_ASSIGN(Topology topology, parse_topology_json(text));
                            return Noted{std::move(topology), {}};
                          }};
constexpr Format kRecording = {"a recorded machine", read_recording};
constexpr Format kSmiMatrix = {"the matrix of nvidia-smi topo -m", read_smi_matrix};

/// The format that a text is in, or is meant to be in; null where it looks like none.
const Format* format_of(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  text.remove_prefix(std::min(start, text.size()));
  if (text.starts_with("{")) return &kJson;
  if (text.starts_with("tutti machine")) return &kRecording;
  if (!text.starts_with("<")) return text.find("GPU0") == text.npos ? nullptr : &kSmiMatrix;
  const std::size_t nccl = text.find("<system"), hwloc = text.find("<topology");
  if (nccl == text.npos && hwloc == text.npos) return nullptr;
  return nccl < hwloc ? &kNcclXml : &kHwlocXml;
}

}  // namespace

Result<Noted> read_any_format(std::string_view text, std::string_view name) {
  const Format* const format = format_of(text);
  if (format == nullptr)
    return make_error(
        Code::kWrongData,
        "'{}' {}; NCCL's XML has <system>, hwloc's has <topology>, Tutti's JSON "
        "begins with {{, a recorded machine with `tutti machine`, and the matrix of `nvidia-smi "
        "topo "
        "-m` has GPU0",
        name,
        text.empty() ? "is empty" : "is no topology: it begins with " + shown(text.substr(0, 40)));
  Result<Noted> noted = format->read(text);
  if (noted) return noted;
  return make_error(Code::kWrongData, "'{}' looks like {}: {}", name, format->name,
                    noted.error().what);
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
