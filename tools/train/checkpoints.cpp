#include "tools/train/checkpoints.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/printable.hpp"
#include "src/base/result.hpp"
#include "tools/program/cli.hpp"
#include "tools/train/model_shape.hpp"
#include "training/checkpoint_folders.hpp"
#include "training/safetensors.hpp"

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using training::Checkpoint;
using training::Manifest;
using training::OwnedPiece;
using training::ParameterId;
using training::ParameterTable;

constexpr std::string_view kParameter = "parameter";
constexpr std::string_view kCounter = "counter.";
constexpr double kMega = 1e6;

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, wrong] = std::from_chars(text.data(), end, number);
  if (wrong != std::errc{} || rest != end) return std::nullopt;
  return number;
}

std::vector<std::string> kinds_of(const Manifest& manifest) {
  std::set<std::string> kinds;
  for (const training::StoredPiece& piece : manifest.pieces) kinds.insert(piece.kind);
  return {kinds.begin(), kinds.end()};
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, " x "));
}

std::string megabytes(std::uint64_t elements) {
  return fmt::format("{:.3f} MB", static_cast<double>(elements * sizeof(float)) / kMega);
}

std::string text_of(const Checkpoint& checkpoint, const WholeCheckpoint& whole, std::size_t files) {
  std::string text =
      fmt::format("{}: step {}, {:.3f} million parameters in {} tensors, {} file{}\n",
                  tools::shown_path(checkpoint.folder().string()), whole.head.step,
                  static_cast<double>(whole.table.elements()) / kMega, whole.table.size(), files,
                  files == 1 ? "" : "s");
  if (const auto shape = shape_in(whole.head.counters))
    text += fmt::format("model: {} layers, {} heads, width {}, context {}\n", shape->layers,
                        shape->heads, shape->width, shape->context);
  tools::Table tensors({"TENSOR", "SHAPE", "ELEMENTS", "SIZE", "DECAYS"});
  for (ParameterId id = 0; id < whole.table.size(); ++id)
    tensors.add({without_controls(whole.table[id].name), shape_text(whole.table[id].shape),
                 std::to_string(whole.table.elements(id)), megabytes(whole.table.elements(id)),
                 whole.table[id].decays ? "yes" : "no"});
  text += "\n" + tensors.text({2, 3}) + "\n";
  tools::Table counters({"COUNTER", "VALUE"});
  for (const auto& [name, value] : whole.head.counters)
    counters.add({without_controls(name), std::to_string(value)});
  if (!whole.head.counters.empty()) text += counters.text({1}) + "\n";
  std::vector<std::string> names;
  for (const auto& kind : whole.kinds) names.push_back(without_controls(kind.name));
  std::uint64_t elements = 0;
  for (const training::StoredPiece& piece : checkpoint.manifest().pieces) elements += piece.count;
  return text + fmt::format("checksums: all right ({}; {})\n", fmt::join(names, ", "),
                            megabytes(elements));
}

std::string json_of(const WholeCheckpoint& whole, std::size_t files) {
  Json json = {{"step", whole.head.step}, {"files", files}, {"counters", whole.head.counters}};
  for (const auto& kind : whole.kinds) json["kinds"].push_back(kind.name);
  for (const training::Parameter& parameter : whole.table.all())
    json["parameters"].push_back(
        {{"name", parameter.name}, {"shape", parameter.shape}, {"decays", parameter.decays}});
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// What rank `rank` of `ranks` owns where all elements, one tensor after the other, are cut evenly.
std::vector<OwnedPiece> even_part(const WholeCheckpoint& whole, int rank, int ranks) {
  const std::size_t all = whole.table.elements();
  const auto cut = [&](int at) {
    return all / static_cast<std::size_t>(ranks) * static_cast<std::size_t>(at) +
           std::min(all % static_cast<std::size_t>(ranks), static_cast<std::size_t>(at));
  };
  const std::size_t first = cut(rank), last = cut(rank + 1);
  std::vector<OwnedPiece> pieces;
  for (const auto& kind : whole.kinds) {
    std::size_t begin = 0;
    for (ParameterId id = 0; id < whole.table.size(); ++id) {
      const std::size_t end = begin + whole.table.elements(id);
      const std::size_t from = std::max(first, begin), to = std::min(last, end);
      if (from < to)
        pieces.push_back({kind.name, id, from - begin,
                          std::span(kind.values[id]).subspan(from - begin, to - from)});
      begin = end;
    }
  }
  return pieces;
}

}  // namespace

Result<Checkpoint> open_checkpoint(const fs::path& path) {
  std::error_code ignored;
  const fs::path plain = path.has_filename() ? path : path.parent_path();
  if (!fs::exists(plain / "manifest.json", ignored)) return Checkpoint::open(plain);
  const std::string name = fs::absolute(plain, ignored).filename().string();
  const auto step = training::step_in_name(name);
  if (!step)
    return make_error(Code::kWrongData,
                      "{} has a manifest, but its name is not 'step_NUMBER': name it so",
                      tools::shown_path(path.string()));
  return Checkpoint::open(fs::absolute(plain, ignored).parent_path(), step);
}

Result<WholeCheckpoint> read_whole(const Checkpoint& checkpoint) {
  const Manifest& manifest = checkpoint.manifest();
  TUTTI_ASSIGN(ParameterTable table, ParameterTable::create(manifest.parameters));
  TUTTI_TRY(checkpoint.check_files());
  WholeCheckpoint whole{{manifest.step, manifest.counters}, std::move(table), {}};
  for (const std::string& name : kinds_of(manifest)) {
    WholeCheckpoint::Kind kind{name, {}};
    for (ParameterId id = 0; id < whole.table.size(); ++id) {
      std::vector<float>& values = kind.values.emplace_back(whole.table.elements(id));
      TUTTI_TRY(checkpoint.read(name, id, 0, values));
    }
    whole.kinds.push_back(std::move(kind));
  }
  return whole;
}

Result<Inspection> inspect(const Checkpoint& checkpoint) {
  TUTTI_ASSIGN(const WholeCheckpoint whole, read_whole(checkpoint));
  std::set<std::string> files;
  for (const training::StoredPiece& piece : checkpoint.manifest().pieces) files.insert(piece.file);
  return Inspection{text_of(checkpoint, whole, files.size()), json_of(whole, files.size())};
}

Result<WholeCheckpoint> read_weights(const fs::path& path) {
  TUTTI_ASSIGN(const auto file, training::SafetensorsFile::open(path));
  std::vector<training::Parameter> parameters;
  for (const training::StoredTensor& tensor : file.header().tensors)
    parameters.push_back({tensor.name, tensor.shape, tensor.shape.size() >= 2});
  auto table = ParameterTable::create(std::move(parameters));
  if (!table)
    return make_error(Code::kWrongData, "{}: {}", tools::shown_path(path.string()),
                      table.error().what);
  WholeCheckpoint whole{training::CheckpointHead{}, *std::move(table), {}};
  for (const std::string_view name :
       {std::string_view("first"), kParameter, std::string_view("second")})
    whole.kinds.push_back({std::string(name), {}});
  for (const auto& [key, value] : file.header().metadata) {
    const auto number = number_in(value);
    if (key == "step" && number) whole.head.step = *number;
    if (key.starts_with(kCounter) && number)
      whole.head.counters[key.substr(kCounter.size())] = *number;
  }
  for (const training::StoredTensor& tensor : file.header().tensors) {
    TUTTI_ASSIGN(std::vector<float> values, file.read(tensor));
    for (auto& kind : whole.kinds)
      kind.values.push_back(kind.name == kParameter ? values : std::vector<float>(values.size()));
  }
  return whole;
}

Status write_whole(const fs::path& folder, const WholeCheckpoint& whole, int ranks) {
  TUTTI_ASSIGN(std::vector<Comm> comms, Comm::all(ranks));
  std::vector<Status> outcomes(comms.size(), ok_status());
  std::vector<std::jthread> writers;
  for (int rank = 0; rank < ranks; ++rank)
    writers.emplace_back([&, rank] {
      const auto at = static_cast<std::size_t>(rank);
      outcomes[at] = training::save_checkpoint(folder, whole.head, whole.table,
                                               even_part(whole, rank, ranks), comms[at]);
    });
  writers.clear();  // joins them
  // Those whose own write failed say why; the others name them.
  const auto failed = std::ranges::find_if(outcomes, [](const Status& status) {
    return !status && status.error().code != Code::kPeerFailed;
  });
  return failed == outcomes.end() ? outcomes.front() : *failed;
}

Status write_weights(const fs::path& file, const WholeCheckpoint& whole) {
  const auto kind = std::ranges::find(whole.kinds, kParameter, &WholeCheckpoint::Kind::name);
  if (kind == whole.kinds.end())
    return make_error(Code::kWrongData, "the checkpoint has no parameters, only: {}",
                      whole.kinds.front().name);
  training::SafetensorsHeader header;
  header.metadata["step"] = std::to_string(whole.head.step);
  for (const auto& [name, value] : whole.head.counters)
    header.metadata[std::string(kCounter) + name] = std::to_string(value);
  for (const training::Parameter& parameter : whole.table.all())
    header.tensors.push_back({.name = parameter.name, .shape = parameter.shape});
  return training::write_safetensors(
      file, header, [&](std::size_t i) -> Result<std::vector<float>> { return kind->values[i]; });
}

}  // namespace tutti::trainer
