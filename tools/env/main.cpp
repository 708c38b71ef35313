// tutti env: every setting with its value, source, range and meaning; names that no setting reads;
// and what this machine offers.
#include <nlohmann/json.hpp>

#include "src/base/result.hpp"
#include "src/base/settings.hpp"
#include "src/cost/measured_store.hpp"
#include "src/reduce/reduce.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/command_line.hpp"
#include "tools/program/machine.hpp"

namespace {

using namespace tutti::tools;  // NOLINT(google-build-using-namespace): the programs' own vocabulary
using tutti::Status;
using Json = nlohmann::ordered_json;

constexpr std::string_view kProgram = "tutti env";

std::string or_dash(std::string text) { return text.empty() ? "-" : text; }

std::string limits(const tutti::SettingInfo& info) {
  if (info.range.empty()) return std::string(name_of(info.kind));
  return fmt::format("{}{}{}", info.range, info.unit.empty() ? "" : " ", info.unit);
}

std::string settings_table(const tutti::Settings& settings) {
  Table table({"SETTING", "VALUE", "FROM", "DEFAULT", "LEGAL", "MEANING"});
  for (const tutti::SettingInfo& info : tutti::all_settings())
    table.add({fmt::format("TUTTI_{}", info.name), or_dash(settings.displayed(info.name)),
               settings.source(info.name), or_dash(std::string(info.default_value)), limits(info),
               std::string(info.why)});
  return table.text();
}

std::string gib(std::uint64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

std::string machine_table(const Machine& machine) {
  return fmt::format(
      "\nMACHINE\n  cpus      {} online, {} allowed by affinity, quota {}\n"
      "  memory    {}, {} available, limit {}\n  simd      {}\n  kernel    {}\n",
      machine.cpus_online, machine.cpus_allowed,
      machine.cpus_quota ? fmt::format("{:g}", *machine.cpus_quota) : "none",
      gib(machine.memory_bytes), gib(machine.memory_available_bytes),
      machine.memory_limit_bytes ? gib(*machine.memory_limit_bytes) : "none", tutti::simd_target(),
      machine.kernel);
}

std::string tuning_table(tutti::MeasuredStore& tuning) {
  return fmt::format("\nTUNING\n  file      {}\n  verdicts  {}\n", or_dash(tuning.path()),
                     tuning.table().ranges().size());
}

Json json_of(const tutti::Settings& settings, const Machine& machine, tutti::MeasuredStore& tuning,
             const std::vector<tutti::UnknownSetting>& unknown) {
  Json json;
  for (const tutti::SettingInfo& info : tutti::all_settings())
    json["settings"].push_back({{"name", fmt::format("TUTTI_{}", info.name)},
                                {"value", settings.displayed(info.name)},
                                {"source", settings.source(info.name)},
                                {"default", info.default_value},
                                {"kind", name_of(info.kind)},
                                {"unit", info.unit},
                                {"range", info.range},
                                {"nccl_name", info.nccl_name},
                                {"meaning", info.why}});
  json["unknown"] = Json::array();
  for (const auto& [name, nearest] : unknown)
    json["unknown"].push_back({{"name", name}, {"nearest", nearest}});
  json["machine"] = {{"cpus_online", machine.cpus_online},
                     {"cpus_allowed", machine.cpus_allowed},
                     {"memory_bytes", machine.memory_bytes},
                     {"memory_available_bytes", machine.memory_available_bytes},
                     {"simd", tutti::simd_target()},
                     {"kernel", machine.kernel}};
  json["tuning"] = {{"file", tuning.path()}, {"verdicts", tuning.table().ranges().size()}};
  if (machine.cpus_quota) json["machine"]["cpus_quota"] = *machine.cpus_quota;
  if (machine.memory_limit_bytes)
    json["machine"]["memory_limit_bytes"] = *machine.memory_limit_bytes;
  return json;
}

void report_unknown(const std::vector<tutti::UnknownSetting>& unknown) {
  for (const auto& [name, nearest] : unknown)
    note(fmt::format("{}: {} is not read by Tutti{}\n", kProgram, name,
                     nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest)));
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_descriptors();
  CommandLine app("Shows every setting and what this machine offers.", kProgram);
  std::string json_path;
  app.add_option("--json", json_path, "also write the result as JSON to FILE; '-': standard output")
      .value_name("FILE");
  if (const auto code = app.parse(argc, argv)) return *code;

  const auto unknown = tutti::unknown_settings(tutti::process_environment_names());
  report_unknown(unknown);
  const auto settings = tutti::Settings::load(tutti::process_environment());
  if (!settings) return fail(kProgram, settings.error());

  const Machine machine = this_machine();
  const auto tuning = tutti::store_of_verdicts(*settings);
  const Status written = write_results(
      json_path, settings_table(*settings) + machine_table(machine) + tuning_table(*tuning),
      [&] { return json_of(*settings, machine, *tuning, unknown).dump(2) + "\n"; });
  return written ? kExitFine : fail(kProgram, written.error());
}
