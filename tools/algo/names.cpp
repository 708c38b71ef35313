#include "tools/algo/names.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "algorithms/algorithms.hpp"
#include "src/base/nearest.hpp"
#include "src/base/result.hpp"
#include "tools/algo/export.hpp"
#include "tools/program/cli.hpp"

namespace tutti::tools {
namespace {

bool supports_without_layout(const ir::Algorithm& algorithm, Collective collective) {
  for (int ranks = 1; ranks <= 33; ++ranks)
    if (algorithm.supports({.collective = collective, .ranks = ranks})) return true;
  return false;
}

bool supports_over(const ir::Algorithm& algorithm, Collective collective,
                   const ir::Layout& layout) {
  return algorithm.supports({.collective = collective,
                             .ranks = static_cast<std::int32_t>(layout.cells.size()),
                             .layout = layout});
}

ir::Layout nodes_of_two() { return ir::Layout::grid({2, 2}); }

ir::Layout nodes_of_two_and_one() { return {.extents = {2, 2}, .cells = {0, 1, 2}}; }

}  // namespace

Result<const ir::Algorithm*> find_algorithm(const std::string& name) {
  std::vector<std::string> names;
  for (const ir::Algorithm& algorithm : algorithms::with_in_network()) {
    if (algorithm.name == name) return &algorithm;
    names.emplace_back(algorithm.name);
  }
  const std::string meant = nearest(name, names);
  return make_error(Code::kInvalidArgument, "there is no algorithm '{}'; {}", name,
                    meant.empty() ? fmt::format("there are {}", fmt::join(names, ", "))
                                  : fmt::format("did you mean '{}'?", meant));
}

std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (int i = 0; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    if (collective == Collective::kSend || collective == Collective::kRecv) continue;
    names.emplace_back(name_of(collective));
  }
  return names;
}

Collective collective_named(const std::string& name) {
  const auto names = collective_names();
  return static_cast<Collective>(std::ranges::find(names, name) - names.begin());
}

std::vector<Collective> collectives_of(const ir::Algorithm& algorithm) {
  std::vector<Collective> supported;
  for (const std::string& name : collective_names()) {
    const Collective collective = collective_named(name);
    if (supports_without_layout(algorithm, collective) ||
        supports_over(algorithm, collective, nodes_of_two()))
      supported.push_back(collective);
  }
  return supported;
}

Needs needs_of(const ir::Algorithm& algorithm) {
  const auto collectives = collectives_of(algorithm);
  const auto works_flat = [&](Collective c) { return supports_without_layout(algorithm, c); };
  if (std::ranges::any_of(collectives, works_flat)) return Needs::kNothing;
  const auto works_uneven = [&](Collective collective) {
    return supports_over(algorithm, collective, nodes_of_two_and_one());
  };
  return std::ranges::any_of(collectives, works_uneven) ? Needs::kNodes : Needs::kGrid;
}

std::string_view name_of(Needs needs) {
  switch (needs) {
    case Needs::kNothing:
      return "any ranks";
    case Needs::kNodes:
      return "two levels";
    case Needs::kGrid:
      return "grid";
  }
  return "";
}

Result<ir::Layout> layout_named(const std::string& text) {
  TUTTI_ASSIGN(ir::Layout layout, ir::parse_layout(text));
  if (layout.cells.size() > static_cast<std::size_t>(kMostAlgoRanks))
    return make_error(Code::kInvalidArgument, "layout '{}' has {} ranks; at most {} are possible",
                      text, layout.cells.size(), kMostAlgoRanks);
  return layout;
}

std::optional<std::string> file_named(const std::string& what) {
  constexpr std::string_view kFile = "file:";
  if (what.starts_with(kFile)) return what.substr(kFile.size());
  const auto known = algorithms::with_in_network();
  if (std::ranges::find(known, what, &ir::Algorithm::name) != known.end()) return std::nullopt;
  const bool is_file =
      what.find_first_of("./") != std::string::npos || std::filesystem::exists(what);
  return is_file ? std::optional(what) : std::nullopt;
}

Result<exchange::Schedules> schedules_of(const std::string& path, const std::string& text) {
  std::vector<std::string> notes;
  auto schedules = exchange::read(text, &notes);
  for (const std::string& each : notes) note(fmt::format("{}: {}\n", path, each));
  if (schedules) return schedules;
  if (is_written_json(text))
    return make_error(Code::kWrongData,
                      "{} is the JSON of `tutti algo show`, which is for other programs: write "
                      "FILE.txt to read the schedule again",
                      shown_path(path));
  const Error& error = schedules.error();
  const Code code = error.code == Code::kInvalidArgument ? Code::kWrongData : error.code;
  return exchange::at_place(path, make_error(code, "{}", error.what));
}

}  // namespace tutti::tools
