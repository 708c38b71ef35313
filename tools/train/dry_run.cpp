#include "tools/train/dry_run.hpp"

#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/base/result.hpp"
#include "tools/program/cli.hpp"

namespace tutti::trainer {
namespace {

using Json = nlohmann::ordered_json;
using training::MemoryPlan;
using training::TrafficPlan;

struct Amount {
  std::string_view name, of;
  std::uint64_t bytes = 0;
};

std::vector<Amount> amounts_of(const MemoryPlan& memory) {
  return {{"parameters", "as the model computes with them", memory.parameters},
          {"gradients", "whole, or sums of this rank's shards", memory.gradients},
          {"masters", "float32 of what is stepped", memory.masters},
          {"moments", "of AdamW", memory.moments},
          {"windows", "what is whole for a while", memory.windows},
          {"all", "", memory.all()}};
}

std::vector<Amount> amounts_of(const TrafficPlan& traffic) {
  return {{"gathers", "of parameters", traffic.gathers},
          {"reductions", "of gradients, among those who shard", traffic.reductions},
          {"replicas", "of gradients, among replicas", traffic.replicas},
          {"all", "", traffic.all()},
          {"padding", "part of all these", traffic.padding}};
}

std::string table_of(const char* title, const std::vector<Amount>& amounts) {
  tools::Table table({title, "BYTES", ""});
  for (const Amount& amount : amounts)
    table.add({std::string(amount.name), std::to_string(amount.bytes), std::string(amount.of)});
  return table.text({1});
}

Json json_of(const std::vector<Amount>& amounts) {
  Json json;
  for (const Amount& amount : amounts) json[std::string(amount.name)] = amount.bytes;
  return json;
}

}  // namespace

std::string prediction_text(const Settings& settings, const training::Plan& plan) {
  const auto& table = plan.layout()->table();
  const auto& mesh = plan.mesh();
  const ModelShape& shape = settings.shape;
  std::string text = fmt::format(
      "{:.3f} million parameters: {} layers, {} heads, width {}, context {}\n"
      "{} rank{}: {} replica{} of {} shard{}; {} pass{} a step, {} samples of {} bytes in all\n\n",
      static_cast<double>(table.elements()) / 1e6, shape.layers, shape.heads, shape.width,
      shape.context, mesh.world(), mesh.world() == 1 ? "" : "s", mesh.replicas(),
      mesh.replicas() == 1 ? "" : "s", mesh.shards(), mesh.shards() == 1 ? "" : "s",
      settings.plan.passes, settings.plan.passes == 1 ? "" : "es", settings.batch, shape.context);
  text += table_of("MEMORY OF A RANK", amounts_of(plan.memory())) + "\n";
  text += table_of("SENT BY A RANK IN A STEP", amounts_of(plan.traffic()));
  return text + "\nNot counted: activations, LibTorch and the library themselves.\n";
}

std::string prediction_json(const Settings& settings, const training::Plan& plan) {
  const auto& table = plan.layout()->table();
  Json json = {{"parameters", table.elements()},      {"ranks", plan.mesh().world()},
               {"shards", plan.mesh().shards()},      {"replicas", plan.mesh().replicas()},
               {"passes", settings.plan.passes},      {"samples_per_step", settings.batch},
               {"tokens_per_step", settings.tokens()}};
  json["memory"] = json_of(amounts_of(plan.memory()));
  json["sent_per_step"] = json_of(amounts_of(plan.traffic()));
  return json.dump(1) + "\n";
}

}  // namespace tutti::trainer
