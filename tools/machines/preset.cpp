#include "tools/machines/preset.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/nearest.hpp"
#include "src/base/result.hpp"
#include "src/topo/format/json.hpp"
#include "src/topo/model/aggregation.hpp"
#include "src/topo/model/words.hpp"

namespace tutti::topo {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFormat = "tutti-preset";
constexpr int kVersion = 1;
// The text 1, its host 2, its lists 3, their elements 4, attributes 5.
constexpr int kMostDepth = 5;

/// Ends parsing; caught in parse_preset().
struct Refused {
  Error error;
};

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Refused{make_error(Code::kInvalidArgument, format, std::forward<Args>(args)...)};
}

/// Refuses what is too deep, and keys that come twice, of which the parser would keep the last.
class Guard {
 public:
  bool operator()(int depth, Json::parse_event_t event, const Json& value) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (depth >= kMostDepth) refuse("lists and objects are nested deeper than {}", kMostDepth);
      keys_[static_cast<std::size_t>(depth) + 1].clear();
    }
    if (event == Event::key &&
        !keys_[static_cast<std::size_t>(depth)].insert(value.get<std::string>()).second)
      refuse("the key {} is there twice in one object", shown(value.get<std::string>()));
    return true;
  }

 private:
  std::array<std::set<std::string>, kMostDepth + 1> keys_;  // of the open object of each depth
};

std::string text_of(const Json& object, const char* key, std::string_view where) {
  if (!object.contains(key)) refuse("{}{}: is missing", where, key);
  if (!object[key].is_string()) refuse("{}{}: must be a string", where, key);
  return object[key].get<std::string>();
}

void check_keys(const Json& object, std::string_view where,
                std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : object.items())
    if (std::ranges::find(known, key) == known.end())
      refuse("{}: the key {} is unknown", where, shown(key));
}

PresetSource source_of(const Json& entry, const std::string& where) {
  if (!entry.is_object()) refuse("{}: must be an object", where);
  check_keys(entry, where, {"of", "bandwidth", "latency", "value", "source", "assumption"});
  PresetSource source;
  source.of = text_of(entry, "of", where + ".");
  for (const char* quantity : {"bandwidth", "latency", "value"}) {
    if (!entry.contains(quantity)) continue;
    if (!source.quantity.empty()) refuse("{}: speaks of two numbers; make two entries", where);
    if (!entry[quantity].is_number()) refuse("{}.{}: must be a number", where, quantity);
    source.quantity = quantity;
    source.value = entry[quantity].get<double>();
  }
  source.assumed = entry.contains("assumption");
  if (source.assumed == entry.contains("source"))
    refuse("{}: must have either `source` or `assumption`", where);
  source.text = text_of(entry, source.assumed ? "assumption" : "source", where + ".");
  if (source.text.empty()) refuse("{}: says nothing about where the number is from", where);
  return source;
}

std::vector<PresetSource> sources_of(const Json& text) {
  if (!text.contains("sources") || !text["sources"].is_array())
    refuse("sources: must be a list that says where each number is from");
  if (text["sources"].size() > kMostPresetSources)
    refuse("sources: {} entries are too many: at most {}", text["sources"].size(),
           kMostPresetSources);
  std::vector<PresetSource> sources;
  for (const Json& entry : text["sources"])
    sources.push_back(source_of(entry, fmt::format("sources[{}]", sources.size())));
  return sources;
}

/// Refuses a number that no source speaks of.
class Vouchers {
 public:
  explicit Vouchers(const std::vector<PresetSource>& sources) {
    for (const PresetSource& source : sources)
      known_.insert({source.of, source.quantity, source.value});
  }

  void require(std::string_view of, std::string_view quantity, double value,
               std::string_view where) const {
    if (known_.contains({std::string(of), std::string(quantity), value})) return;
    refuse("{}: `sources` does not say where it is from; add {{\"of\": \"{}\", \"{}\": {}, ...}}",
           where, of, quantity, value);
  }

 private:
  std::set<std::tuple<std::string, std::string, double>> known_;
};

void require_links(const Topology& host, const Vouchers& vouchers) {
  for (std::size_t i = 0; i < host.links().size(); ++i) {
    const Link& link = host.links()[i];
    const std::string where = fmt::format("host: the {} link from {} to {} of {} GB/s, {} us",
                                          name_of(link.kind), full_name(host, link.from),
                                          full_name(host, link.to), link.bandwidth, link.latency);
    vouchers.require(name_of(link.kind), "bandwidth", link.bandwidth, where);
    vouchers.require(name_of(link.kind), "latency", link.latency, where);
  }
}

void require_attributes(const Topology& host, const Vouchers& vouchers) {
  struct Rated {
    NodeKind kind;
    std::string_view key, of;
    double per_unit;  // of the attribute's in a GB/s
  };
  constexpr std::array kRated = {Rated{NodeKind::kNic, "speed", "nic", 8000},
                                 Rated{NodeKind::kGpu, "ici", "ici", 1}};
  for (NodeId id = 0; id < host.nodes().size(); ++id) {
    const Node& node = host.node(id);
    for (const auto& [kind, key, of, per_unit] : kRated) {
      const auto found = std::ranges::find(node.attributes, key, &Attribute::key);
      if (node.kind != kind || found == node.attributes.end()) continue;
      const Json number = Json::parse(found->value, nullptr, false);
      const std::string where = fmt::format("host: `{}` of {}", key, full_name(host, id));
      if (!number.is_number()) refuse("{} is {}, which is no number", where, shown(found->value));
      vouchers.require(of, "bandwidth", number.get<double>() / per_unit, where);
    }
  }
}

void require_aggregations(const Topology& host, const Vouchers& vouchers) {
  for (NodeId id = 0; id < host.nodes().size(); ++id) {
    const auto aggregation = aggregation_of(host, id);
    if (!aggregation) refuse("host: {}", aggregation.error().what);
    if (!*aggregation) continue;
    for (const auto& [name, value] : values_of(**aggregation))
      vouchers.require(fmt::format("{}.{}", kAggregationKey, name), "value", value,
                       fmt::format("host: `{}` of {}", kAggregationKey, full_name(host, id)));
  }
}

Topology host_of(const Json& json, const Vouchers& vouchers) {
  auto host = parse_topology_json(json.dump());
  if (!host) refuse("host: {}", host.error().what);
  require_links(*host, vouchers);
  require_attributes(*host, vouchers);
  require_aggregations(*host, vouchers);
  return *std::move(host);
}

void set(FabricShape& shape, const FabricParameter& parameter, const Json& value) {
  const auto count = [&](const Json& number) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() > 0xFFFFFFFFU)
      refuse("fabric.{}: {} must be a whole number from {:g} to {:g}", parameter.name,
             shown(number.dump()), parameter.least, parameter.most);
    return static_cast<std::uint32_t>(number.get<std::uint64_t>());
  };
  if (const auto* number = std::get_if<double FabricShape::*>(&parameter.member)) {
    if (!value.is_number()) refuse("fabric.{}: must be a number", parameter.name);
    shape.** number = value.get<double>();
  } else if (const auto* whole = std::get_if<std::uint32_t FabricShape::*>(&parameter.member)) {
    shape.** whole = count(value);
  } else {
    if (!value.is_array() || value.size() > kMostFabricSizes)
      refuse("fabric.{}: must be a list of at most {} numbers", parameter.name, kMostFabricSizes);
    auto& list = shape.*std::get<std::vector<std::uint32_t> FabricShape::*>(parameter.member);
    list.clear();
    for (const Json& number : value) list.push_back(count(number));
  }
}

FabricKind kind_named(const std::string& name) {
  for (int i = 0; i < kFabricKinds; ++i)
    if (name_of(static_cast<FabricKind>(i)) == name) return static_cast<FabricKind>(i);
  refuse("fabric.shape: {} is no kind of fabric", shown(name));
}

FabricShape fabric_of(const Json& json, const Vouchers& vouchers) {
  if (!json.is_object()) refuse("fabric: must be an object");
  FabricShape shape;
  shape.kind = kind_named(text_of(json, "shape", "fabric."));
  const auto parameters = fabric_parameters();
  for (const auto& [key, value] : json.items()) {
    if (key == "shape") continue;
    const auto parameter = std::ranges::find(parameters, key, &FabricParameter::name);
    if (parameter == parameters.end() || !parameter->belongs_to(shape.kind))
      refuse("fabric: a {} has no parameter {}", name_of(shape.kind), shown(key));
    set(shape, *parameter, value);
    if (!value.is_number()) continue;
    const std::string_view quantity = key == "link"      ? "bandwidth"
                                      : key == "latency" ? "latency"
                                                         : "value";
    vouchers.require(key, quantity, value.get<double>(), "fabric." + key);
  }
  return shape;
}

/// Fit to stand in a line of text.
void check_name(const std::string& name) {
  const auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.';
  };
  if (name.empty() || name.size() > kLongestPresetName || !std::ranges::all_of(name, is_part))
    refuse("name: {} must be 1 to {} of the letters a to z, digits, `-`, `+` and `.`", shown(name),
           kLongestPresetName);
}

Preset preset_of(const Json& text) {
  if (!text.is_object() || text.value("format", Json()) != kFormat)
    refuse("format: must be \"{}\", or this is another kind of file", kFormat);
  if (text.value("version", Json()) != kVersion)
    refuse("version: must be {}, which is what this program reads", kVersion);
  check_keys(text, "the preset",
             {"format", "version", "name", "title", "sources", "host", "fabric"});
  if (text.contains("host") == text.contains("fabric"))
    refuse("a preset has either `host` or `fabric`");
  const std::string name = text_of(text, "name", ""), title = text_of(text, "title", "");
  check_name(name);
  auto sources = sources_of(text);
  const Vouchers vouchers(sources);
  if (text.contains("host"))
    return {name, title, std::move(sources), host_of(text["host"], vouchers)};
  return {name, title, std::move(sources), fabric_of(text["fabric"], vouchers)};
}

}  // namespace

Result<Preset> parse_preset(std::string_view text) {
  if (text.size() > kMostPresetBytes)
    return make_error(Code::kInvalidArgument, "{} bytes are too many for a preset: at most {}",
                      text.size(), kMostPresetBytes);
  try {
    Guard guard;
    return preset_of(Json::parse(text, std::ref(guard)));
  } catch (const Refused& refused) {
    return refused.error;
  } catch (const Json::parse_error& error) {
    return make_error(Code::kInvalidArgument, "{}: is no JSON there", position(text, error.byte));
  } catch (const Json::exception& error) {
    return make_error(Code::kInvalidArgument, "the preset: {}", printable(error.what(), 160));
  }
}

Result<Preset> read_preset_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    return make_error(Code::kUnavailable, "{}: is no file that can be read", shown(path));
  std::ifstream file(path, std::ios::binary);
  std::string text(
      std::min<std::uintmax_t>(std::filesystem::file_size(path, error), kMostPresetBytes + 1),
      '\0');
  if (error || !file.read(text.data(), static_cast<std::streamsize>(text.size())))
    return make_error(Code::kUnavailable, "{}: cannot be read", shown(path));
  auto preset = parse_preset(text);
  if (!preset) return make_error(preset.error().code, "{}: {}", shown(path), preset.error().what);
  return preset;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const PresetText& preset : preset_texts()) names.emplace_back(preset.name);
  return names;
}

Result<Preset> builtin_preset(std::string_view name) {
  const auto texts = preset_texts();
  const auto found = std::ranges::find(texts, name, &PresetText::name);
  if (found != texts.end()) return parse_preset(found->text);
  const auto names = preset_names();
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  const std::string meant = nearest(lower, names);
  return make_error(Code::kInvalidArgument, "there is no preset {}; {}", shown(name),
                    meant.empty() ? fmt::format("there are {}", fmt::join(names, ", "))
                                  : fmt::format("did you mean {}?", meant));
}

Result<Preset> find_preset(std::string_view name) {
  if (name.find('/') != name.npos || name.ends_with(".json"))
    return read_preset_file(std::string(name));
  return builtin_preset(name);
}

}  // namespace tutti::topo
