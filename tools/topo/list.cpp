#include "tools/topo/list.hpp"

#include <vector>

#include <fmt/format.h>

#include "tools/machines/preset.hpp"
#include "tools/machines/synthetic.hpp"
#include "tools/program/cli.hpp"

namespace tutti::tools {
namespace {

std::string value_of(const topo::FabricShape& shape, const topo::FabricParameter& parameter) {
  using Shape = topo::FabricShape;
  if (const auto* number = std::get_if<double Shape::*>(&parameter.member))
    return fmt::format("{:g}", shape.**number);
  if (const auto* count = std::get_if<std::uint32_t Shape::*>(&parameter.member))
    return fmt::format("{}", shape.**count);
  const auto& list = shape.*std::get<std::vector<std::uint32_t> Shape::*>(parameter.member);
  return list.empty() ? "?" : fmt::format("{}", fmt::join(list, "x"));
}

/// "radix=64,tiers=0"
std::string parameters_of(const topo::FabricShape& shape) {
  std::string text;
  for (const topo::FabricParameter& parameter : topo::fabric_parameters())
    if (parameter.belongs_to(shape.kind))
      text += fmt::format("{}{}={}", text.empty() ? "" : ",", parameter.name,
                          value_of(shape, parameter));
  return text;
}

std::string indented(const Table& table) {
  std::string text;
  for (const char c : table.text()) {
    if (text.empty() || text.back() == '\n') text += "  ";
    text += c;
  }
  return text;
}

std::string presets() {
  Table hosts({"HOST", "TITLE"}), fabrics({"FABRIC", "PARAMETERS", "TITLE"});
  for (const std::string& name : topo::preset_names()) {
    const auto preset = topo::builtin_preset(name);
    if (!preset) continue;  // the tests read them all
    if (preset->host() != nullptr)
      hosts.add({name, preset->title});
    else
      fabrics.add({name, parameters_of(*preset->fabric()), preset->title});
  }
  return "--preset HOST, --preset 'Nx HOST over FABRIC[:PARAMETER=VALUE,...]'\n\n" +
         indented(hosts) + "\n" + indented(fabrics);
}

std::string fabric_parameters() {
  Table table({"PARAMETER", "FROM", "TO", "IS"});
  for (const topo::FabricParameter& parameter : topo::fabric_parameters())
    table.add({std::string(parameter.name), fmt::format("{:.10g}", parameter.least),
               fmt::format("{:.10g}", parameter.most), std::string(parameter.meaning)});
  return "\n" + indented(table);
}

std::string synthetic() {
  Table forms({"SYNTHETIC", "PARAMETERS", "TITLE"}), parameters({"PARAMETER", "IS"});
  for (const topo::SyntheticForm& form : topo::synthetic_forms())
    forms.add({std::string(form.text), fmt::format("{}", fmt::join(form.parameters, ",")),
               std::string(form.title)});
  for (const topo::SyntheticParameter& parameter : topo::synthetic_parameters())
    parameters.add({std::string(parameter.name), std::string(parameter.meaning)});
  return "\n--synthetic SYNTHETIC[,PARAMETER=VALUE,...]\n\n" + indented(forms) + "\n" +
         indented(parameters);
}

}  // namespace

std::string list_of_machines() { return presets() + fabric_parameters() + synthetic(); }

}  // namespace tutti::tools
