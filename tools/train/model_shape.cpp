#include "tools/train/model_shape.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "src/base/result.hpp"

namespace tutti::trainer {
namespace {

using training::Parameter;

constexpr std::int64_t kMostLayers = 1024, kMostWidth = 1 << 16, kMostContext = 1 << 20;

struct Size {
  std::string_view name;
  ModelShape shape;
};
constexpr Size kSizes[] = {
    {"1m", {.layers = 5, .heads = 4, .width = 128, .context = 128}},
    {"3m", {.layers = 4, .heads = 4, .width = 256, .context = 128}},
    {"10m", {.layers = 6, .heads = 6, .width = 384, .context = 256}},
    {"124m", {.layers = 12, .heads = 12, .width = 768, .context = 1024}},
};

struct Field {
  std::string_view name;
  std::int64_t ModelShape::* member;
  std::int64_t most;
};
constexpr Field kFields[] = {{"layers", &ModelShape::layers, kMostLayers},
                             {"heads", &ModelShape::heads, kMostWidth},
                             {"width", &ModelShape::width, kMostWidth},
                             {"context", &ModelShape::context, kMostContext}};

void add_linear(std::vector<Parameter>& all, const std::string& name, std::int64_t out,
                std::int64_t in) {
  all.push_back({name + ".weight", {out, in}, true});
  all.push_back({name + ".bias", {out}, false});
}

void add_norm(std::vector<Parameter>& all, const std::string& name, std::int64_t width) {
  all.push_back({name + ".weight", {width}, false});
  all.push_back({name + ".bias", {width}, false});
}

std::string block_name(std::int64_t block) { return fmt::format("blocks.{}", block); }

}  // namespace

std::vector<std::string> size_names() {
  std::vector<std::string> names;
  for (const Size& size : kSizes) names.emplace_back(size.name);
  return names;
}

ModelShape shape_of_size(std::string_view name) {
  const auto* const found = std::ranges::find(kSizes, name, &Size::name);
  return found == std::end(kSizes) ? ModelShape() : found->shape;
}

Status check(const ModelShape& shape) {
  for (const Field& field : kFields)
    if (const std::int64_t value = shape.*field.member; value < 1 || value > field.most)
      return make_error(Code::kInvalidArgument, "--{} {}: 1 to {} can be trained", field.name,
                        value, field.most);
  if (shape.width % shape.heads == 0) return ok_status();
  return make_error(Code::kInvalidArgument,
                    "--width {} is no multiple of --heads {}: each head takes an equal part",
                    shape.width, shape.heads);
}

Result<training::ParameterTable> parameters_of(const ModelShape& shape) {
  const std::int64_t width = shape.width;
  std::vector<Parameter> all = {{"tokens.weight", {kVocabulary, width}, true},
                                {"positions.weight", {shape.context, width}, true}};
  for (std::int64_t block = 0; block < shape.layers; ++block) {
    const std::string name = block_name(block);
    add_norm(all, name + ".attention_norm", width);
    add_linear(all, name + ".attention.qkv", 3 * width, width);
    add_linear(all, name + ".attention.output", width, width);
    add_norm(all, name + ".mlp_norm", width);
    add_linear(all, name + ".mlp.up", 4 * width, width);
    add_linear(all, name + ".mlp.down", width, 4 * width);
  }
  add_norm(all, "norm", width);
  return training::ParameterTable::create(std::move(all));
}

std::vector<training::Plan::Unit> units_of(const training::ParameterTable& table,
                                           const ModelShape& shape) {
  std::vector<training::Plan::Unit> units = {{.group = {"root", {}}, .keeps_whole = true}};
  for (std::int64_t block = 0; block < shape.layers; ++block)
    units.push_back({.group = {block_name(block), {}}});
  for (training::ParameterId id = 0; id < table.size(); ++id) {
    const std::string& name = table[id].name;
    const auto home = std::find_if(units.begin() + 1, units.end(), [&](const auto& unit) {
      return name.starts_with(unit.group.name + ".");
    });
    (home == units.end() ? units.front() : *home).group.parameters.push_back(id);
  }
  return units;
}

void add_counters(const ModelShape& shape, std::map<std::string, std::uint64_t>& counters) {
  for (const Field& field : kFields)
    counters[std::string(field.name)] = static_cast<std::uint64_t>(shape.*field.member);
}

std::optional<ModelShape> shape_in(const std::map<std::string, std::uint64_t>& counters) {
  ModelShape shape;
  for (const Field& field : kFields) {
    const auto found = counters.find(std::string(field.name));
    if (found == counters.end() || found->second > static_cast<std::uint64_t>(field.most))
      return std::nullopt;
    shape.*field.member = static_cast<std::int64_t>(found->second);
  }
  if (!check(shape)) return std::nullopt;
  return shape;
}

}  // namespace tutti::trainer
