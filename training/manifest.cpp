#include "training/manifest.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "training/json.hpp"
#include "training/outcome.hpp"

namespace tutti::training {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFormat = "tutti-checkpoint";
constexpr int kVersion = 1;
constexpr int kDeepest = 4;
constexpr std::size_t kMostPieces = 1 << 22, kMostParameters = 1 << 20, kMostCounters = 1024;
constexpr std::size_t kLongestFile = 64, kLongestKind = 64, kMostKinds = 4096;

template <class... Args>
Error wrong(fmt::format_string<Args...> format, Args&&... args) {
  return failure(Code::kWrongData, format, std::forward<Args>(args)...);
}

const Json* find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

std::optional<std::uint64_t> number(const Json& object, const char* key) {
  const Json* const value = find(object, key);
  if (value == nullptr || !value->is_number_unsigned()) return std::nullopt;
  return value->get<std::uint64_t>();
}

std::optional<std::string> text(const Json& object, const char* key, std::size_t longest) {
  const Json* const value = find(object, key);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  auto found = value->get<std::string>();
  if (found.empty() || found.size() > longest) return std::nullopt;
  return found;
}

/// The entries of an array, null where there is none or it is too long.
const Json* array(const Json& object, const char* key, std::size_t most) {
  const Json* const value = find(object, key);
  return value != nullptr && value->is_array() && value->size() <= most ? value : nullptr;
}

/// A name in the checkpoint's own folder.
bool is_plain(const std::string& file) {
  return file.front() != '.' && std::ranges::all_of(file, [](unsigned char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
         });
}

Result<Parameter> parse_parameter(const Json& json, std::size_t at) {
  Parameter parameter;
  auto name = text(json, "name", kLongestName);
  const Json* const shape = array(json, "shape", 64);
  const Json* const decays = find(json, "decays");
  if (!name || shape == nullptr || decays == nullptr || !decays->is_boolean())
    return wrong("parameter {} of the manifest lacks its name, shape or decays", at);
  parameter.name = *std::move(name);
  parameter.decays = decays->get<bool>();
  for (const Json& dimension : *shape) {
    if (!dimension.is_number_unsigned() ||
        dimension.get<std::uint64_t>() > static_cast<std::uint64_t>(kMostElements))
      return wrong("the shape of parameter '{}' has a dimension that is none", parameter.name);
    parameter.shape.push_back(dimension.get<std::int64_t>());
  }
  return parameter;
}

Result<StoredPiece> parse_piece(const Json& json, std::size_t at, const ParameterTable& table) {
  const auto kind = text(json, "kind", kLongestKind), name = text(json, "name", kLongestName),
             file = text(json, "file", kLongestFile);
  const auto begin = number(json, "begin"), count = number(json, "count"),
             offset = number(json, "offset"), crc = number(json, "crc32c");
  if (!kind || !name || !file || !begin || !count || !offset || !crc)
    return wrong(
        "piece {} of the manifest lacks one of kind, name, begin, count, file, offset and "
        "crc32c, or it is no such thing",
        at);
  const auto parameter = table.find(*name);
  if (!parameter) return wrong("piece {} is of '{}', which is no parameter", at, *name);
  const std::uint64_t elements = table.elements(*parameter);
  if (*count == 0 || *begin >= elements || *count > elements - *begin)
    return wrong("piece {} is of elements {} to {} of '{}', which has {}", at, *begin,
                 *begin + *count, *name, elements);
  if (!is_plain(*file))
    return wrong("piece {} lies in '{}', which is no name of a file", at, *file);
  constexpr std::uint64_t kFurthest = std::uint64_t{1} << 50U;
  if (*offset > kFurthest || *crc > std::numeric_limits<std::uint32_t>::max())
    return wrong("piece {} lies at {} with the checksum {}", at, *offset, *crc);
  return StoredPiece{
      *kind, *parameter, *begin, *count, *file, *offset, static_cast<std::uint32_t>(*crc)};
}

Result<std::vector<StoredPiece>> parse_all_pieces(const Json& json, const ParameterTable& table) {
  const Json* const pieces = array(json, "pieces", kMostPieces);
  if (pieces == nullptr) return wrong("the manifest has no list of pieces");
  std::vector<StoredPiece> all;
  for (const Json& piece : *pieces) {
    TRAINING_ASSIGN(StoredPiece parsed, parse_piece(piece, all.size(), table));
    all.push_back(std::move(parsed));
  }
  return all;
}

/// Of each kind that there is, every element of every parameter once, or at most once.
Status check_coverage(std::vector<StoredPiece> pieces, const ParameterTable& table) {
  const auto key = [](const StoredPiece& piece) {
    return std::tie(piece.kind, piece.parameter, piece.begin);
  };
  std::ranges::sort(pieces, {}, key);
  std::size_t next = 0, kinds = 0;
  bool has_whole = false;  // so that files are as long as what readers allocate for a kind
  while (next < pieces.size()) {
    const std::string kind = pieces[next].kind;
    const bool has_gaps = may_have_gaps(kind);
    has_whole = has_whole || !has_gaps;
    if (++kinds > kMostKinds) return wrong("the manifest has more than {} kinds", kMostKinds);
    for (ParameterId parameter = 0; parameter < table.size(); ++parameter) {
      std::uint64_t covered = 0;
      for (; next < pieces.size() && pieces[next].kind == kind &&
             pieces[next].parameter == parameter &&
             (has_gaps ? pieces[next].begin >= covered : pieces[next].begin == covered);
           ++next)
        covered = pieces[next].begin + pieces[next].count;
      if (!has_gaps && covered != table.elements(parameter))
        return wrong("of '{}' of kind '{}' the elements from {} on are missing or there twice",
                     table[parameter].name, kind, covered);
    }
    if (next < pieces.size() && pieces[next].kind == kind)
      return wrong("of '{}' of kind '{}' elements are there twice",
                   table[pieces[next].parameter].name, kind);
  }
  if (!has_whole) return wrong("the manifest has no kind of which all elements are there");
  return ok_status();
}

Json json_of(const StoredPiece& piece, const std::string& name) {
  return {{"kind", piece.kind},   {"name", name},       {"begin", piece.begin},
          {"count", piece.count}, {"file", piece.file}, {"offset", piece.offset},
          {"crc32c", piece.crc}};
}

/// Bytes that are no UTF-8 become a sign for that.
std::string dump(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

bool may_have_gaps(std::string_view kind) {
  return kind.starts_with("owed_") || kind.starts_with("velocity_") || kind.starts_with("factor_");
}

std::string manifest_json(const Manifest& manifest) {
  Json json = {{"format", kFormat}, {"version", kVersion}, {"step", manifest.step}};
  json["counters"] = manifest.counters;
  json["parameters"] = Json::array();
  for (const Parameter& parameter : manifest.parameters)
    json["parameters"].push_back(
        {{"name", parameter.name}, {"shape", parameter.shape}, {"decays", parameter.decays}});
  json["pieces"] = Json::array();
  for (const StoredPiece& piece : manifest.pieces)
    json["pieces"].push_back(json_of(piece, manifest.parameters[piece.parameter].name));
  return dump(json);
}

Result<Manifest> parse_manifest(std::string_view text_of_it) {
  const Json json = parse_json(text_of_it, kDeepest);
  const auto format = text(json, "format", 64);
  if (!format || *format != kFormat) return wrong("this is no manifest of a checkpoint");
  const auto version = number(json, "version");
  if (!version || *version != kVersion)
    return failure(Code::kUnsupported,
                   "the manifest is of version {}, and this program reads version {}",
                   version.value_or(0), kVersion);
  Manifest manifest;
  const auto step = number(json, "step");
  const Json* const counters = find(json, "counters");
  const Json* const parameters = array(json, "parameters", kMostParameters);
  if (!step || counters == nullptr || !counters->is_object() || counters->size() > kMostCounters ||
      parameters == nullptr)
    return wrong("the manifest lacks its step, counters or parameters");
  manifest.step = *step;
  for (const auto& [name, value] : counters->items()) {
    if (!value.is_number_unsigned())
      return wrong("counter '{}' of the manifest is no number", name);
    manifest.counters[name] = value.get<std::uint64_t>();
  }
  for (const Json& parameter : *parameters) {
    TRAINING_ASSIGN(Parameter parsed, parse_parameter(parameter, manifest.parameters.size()));
    manifest.parameters.push_back(std::move(parsed));
  }
  auto table = ParameterTable::create(manifest.parameters);
  if (!table) return wrong("the parameters of the manifest: {}", table.error().what);
  TRAINING_ASSIGN(manifest.pieces, parse_all_pieces(json, *table));
  if (manifest.pieces.empty()) return wrong("the manifest has no pieces");
  TRAINING_TRY(check_coverage(manifest.pieces, *table));
  return manifest;
}

std::string pieces_json(const std::vector<StoredPiece>& pieces, const ParameterTable& table) {
  Json json = {{"pieces", Json::array()}};
  for (const StoredPiece& piece : pieces)
    json["pieces"].push_back(json_of(piece, table[piece.parameter].name));
  return dump(json);
}

Result<std::vector<StoredPiece>> parse_pieces(std::string_view text_of_it,
                                              const ParameterTable& table) {
  return parse_all_pieces(parse_json(text_of_it, kDeepest), table);
}

}  // namespace tutti::training
