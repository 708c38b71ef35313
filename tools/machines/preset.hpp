// Machines and fabrics by name, from presets/ (compiled in) or from a file.
//
//   {"format": "tutti-preset", "version": 1,
//    "name": "dgx-h100", "title": "NVIDIA DGX H100: ...",
//    "sources": [{"of": "nvlink", "bandwidth": 450, "source": "NVIDIA H100 data sheet: ..."},
//                {"of": "pci", "latency": 0.25, "assumption": "..."}, ...],
//    "host": {"format": "tutti-topology", ...}}
//
// or, in place of "host", "fabric": {"shape": "fat-tree", "radix": 64, ...} with the parameters of
// tools/fabric/fabric.hpp. A number that nobody vouches for is refused: every bandwidth and latency
// of a host's links, by kind, every NIC's speed ("nic", in GB/s), every `ici` of a GPU, every
// number of an `aggregation` ("aggregation.rate") and every parameter of a fabric needs an entry in
// "sources" with that value, which either says where it is published or that it is assumed. Entries
// without a value ("shape", lists) speak for themselves.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "src/topo/model/topology.hpp"
#include "tools/fabric/fabric.hpp"

namespace tutti::topo {

/// Who vouches for a number.
struct PresetSource {
  std::string of;        ///< kind of link, "nic", "ici", or a parameter of a fabric
  std::string quantity;  ///< "bandwidth", "latency", "value", or "" without a number
  double value = 0;      ///< GB/s, microseconds, or as the parameter counts
  std::string text;
  bool assumed = false;
  friend bool operator==(const PresetSource&, const PresetSource&) = default;
};

struct Preset {
  std::string name;
  std::string title;
  std::vector<PresetSource> sources;
  std::variant<Topology, FabricShape> content;

  /// Null if it is the other kind.
  [[nodiscard]] const Topology* host() const { return std::get_if<Topology>(&content); }
  [[nodiscard]] const FabricShape* fabric() const { return std::get_if<FabricShape>(&content); }
};

/// Longest text that is read, most sources, longest name.
inline constexpr std::size_t kMostPresetBytes = std::size_t{16} << 20U;
inline constexpr std::size_t kMostPresetSources = 1024;
inline constexpr std::size_t kLongestPresetName = 64;

/// Any bytes may be read. kInvalidArgument names line and column where the text is no JSON, and the
/// place ("sources[2].of") where it is no preset.
Result<Preset> parse_preset(std::string_view text);

/// The same of a regular file. kUnavailable where it cannot be read, kInvalidArgument with the path
/// in front where it is no preset.
Result<Preset> read_preset_file(const std::string& path);

/// Names of the presets of the library, ascending: hosts first, then fabrics.
std::vector<std::string> preset_names();

/// The preset of that name. kInvalidArgument suggests the nearest name.
Result<Preset> builtin_preset(std::string_view name);

/// How names become presets: builtin_preset(), or find_preset() for names with a slash or with
/// ".json" at the end, which are paths.
using PresetLookup = std::function<Result<Preset>(std::string_view name)>;
Result<Preset> find_preset(std::string_view name);

/// A text of the library; private to src/topo.
struct PresetText {
  std::string_view name;
  std::string_view text;
};
/// In the order of preset_names(); made by tools/machines/presets.cmake.
std::span<const PresetText> preset_texts();

}  // namespace tutti::topo
