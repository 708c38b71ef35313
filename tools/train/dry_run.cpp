#include "tools/train/dry_run.hpp"

#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/base/result.hpp"
#include "tools/program/cli.hpp"
#include "tools/train/step_time.hpp"

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
  std::vector<Amount> amounts = {
      {"parameters", "as the model computes with them", memory.parameters},
      {"gradients", "whole, or sums of this rank's shards", memory.gradients},
      {"masters", "float32 of what is stepped", memory.masters},
      {"moments", "of AdamW", memory.moments},
      {"windows", "what is whole for a while", memory.windows}};
  if (memory.owed > 0)
    amounts.push_back({"owed", "what compression leaves to later steps, and keeps", memory.owed});
  amounts.push_back({"all", "", memory.all()});
  return amounts;
}

std::vector<Amount> amounts_of(const TrafficPlan& traffic) {
  return {
      {"gathers", "of parameters", traffic.gathers},
      {"reductions", "of gradients, among those who shard", traffic.reductions},
      {"replicas", "of gradients, among replicas", traffic.replicas},
      {"all", "", traffic.all()},
      {"padding", "part of all these", traffic.padding},
      {"shared", "part of these: what formats keep beside values, such as scales", traffic.shared},
      {"other_hosts", "part of all these", traffic.other_hosts}};
}

bool is_compressed(const training::Plan& plan) {
  return !plan.weights().is_plain() || plan.options().gradients.is_on();
}

std::string memory_table(const MemoryPlan& memory) {
  tools::Table table({"MEMORY OF A RANK", "BYTES", ""});
  for (const Amount& amount : amounts_of(memory))
    table.add({std::string(amount.name), std::to_string(amount.bytes), std::string(amount.of)});
  return table.text({1});
}

std::string traffic_table(const training::Plan& plan, int hosts) {
  const std::vector<Amount> sent = amounts_of(plan.traffic(hosts)),
                            plain = amounts_of(plan.uncompressed().traffic(hosts));
  const bool compressed = is_compressed(plan);
  std::vector<std::string> head = {"SENT BY A RANK IN A STEP", "BYTES"};
  if (compressed) head.emplace_back("UNCOMPRESSED");
  head.emplace_back("");
  tools::Table table(head);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const bool is_shown =
        (compressed || sent[i].name != "shared") && (hosts > 1 || sent[i].name != "other_hosts");
    if (!is_shown) continue;
    std::vector<std::string> row = {
        sent[i].name == "other_hosts" ? "to other hosts" : std::string(sent[i].name),
        std::to_string(sent[i].bytes)};
    if (compressed) row.push_back(std::to_string(plain[i].bytes));
    row.emplace_back(sent[i].of);
    table.add(row);
  }
  return compressed ? table.text({1, 2}) : table.text({1});
}

/// A step's time by the model. Value.
struct StepTime {
  double seconds = 0, uncompressed = 0;
};
Result<StepTime> time_of(const training::Plan& plan, const Where& where) {
  TUTTI_ASSIGN(const double rate, parse_link(where.link));
  return StepTime{step_seconds(plan, where.hosts, rate, where.compute),
                  step_seconds(plan.uncompressed(), where.hosts, rate, where.compute)};
}

Result<std::string> time_text(const training::Plan& plan, const Where& where) {
  if (where.link.empty()) return std::string();
  TUTTI_ASSIGN(const StepTime time, time_of(plan, where));
  constexpr double kMilli = 1e3;
  std::string text = fmt::format(
      "\nA step takes {:.0f} ms by the model, over links of {} between {} host{}, of which {:.0f} "
      "ms "
      "are computed{}",
      time.seconds * kMilli, where.link, where.hosts, where.hosts == 1 ? "" : "s",
      where.compute * kMilli, where.compute == 0 ? " (--compute-ms)" : "");
  if (is_compressed(plan))
    text += fmt::format("; {:.0f} ms without compression", time.uncompressed * kMilli);
  return text + ".\n";
}

Json json_of(const std::vector<Amount>& amounts) {
  Json json;
  for (const Amount& amount : amounts) json[std::string(amount.name)] = amount.bytes;
  return json;
}

}  // namespace

Result<std::string> prediction_text(const Settings& settings, const training::Plan& plan,
                                    const Where& where) {
  TUTTI_ASSIGN(const std::string times, time_text(plan, where));
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
  text += memory_table(plan.memory()) + "\n" + traffic_table(plan, where.hosts) + times;
  if (plan.options().gradients.warmup_steps > 0)
    text += fmt::format("\nThe first {} steps send gradients as they are.\n",
                        plan.options().gradients.warmup_steps);
  return text + "\nNot counted: activations, LibTorch and the library themselves.\n";
}

Result<std::string> prediction_json(const Settings& settings, const training::Plan& plan,
                                    const Where& where) {
  const auto& table = plan.layout()->table();
  Json json = {{"parameters", table.elements()},      {"ranks", plan.mesh().world()},
               {"shards", plan.mesh().shards()},      {"replicas", plan.mesh().replicas()},
               {"passes", settings.plan.passes},      {"samples_per_step", settings.batch},
               {"tokens_per_step", settings.tokens()}};
  json["memory"] = json_of(amounts_of(plan.memory()));
  json["sent_per_step"] = json_of(amounts_of(plan.traffic(where.hosts)));
  if (is_compressed(plan))
    json["sent_per_step_uncompressed"] =
        json_of(amounts_of(plan.uncompressed().traffic(where.hosts)));
  if (where.link.empty()) return json.dump(1) + "\n";
  TUTTI_ASSIGN(const StepTime time, time_of(plan, where));
  json["seconds_per_step"] = time.seconds;
  if (is_compressed(plan)) json["seconds_per_step_uncompressed"] = time.uncompressed;
  return json.dump(1) + "\n";
}

}  // namespace tutti::trainer
