#include "tools/tune/report.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/program/sizes.hpp"

namespace tutti::tune {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kRow = "{:<15}{:>8}  {:<36}{:>12}  {:<24}{:>12}{:>9}\n";

std::string us_text(double us) {
  return us < 1000 ? fmt::format("{:.2f}", us) : fmt::format("{:.0f}", us);
}
std::string percent_text(double part) { return fmt::format("{:.1f} %", 100 * part); }

Json json_of(const Timed& timed) {
  return {{"algorithm", timed.way.algorithm},
          {"kernel_reads", timed.way.kernel_reads},
          {"median_us", timed.median()},
          {"lower_quartile_us", timed.lower_quartile()},
          {"rounds", timed.us.size()}};
}

Json json_of(const Cell& cell) {
  Json json;
  json["collective"] = name_of(cell.collective);
  json["bytes"] = cell.bytes;
  json["own"] = {{"algorithm", cell.own.way.algorithm},
                 {"median_us", cell.own.median()},
                 {"lower_quartile_us", cell.own.lower_quartile()},
                 {"rounds", cell.own.us.size()}};
  json["regret"] = regret(cell);
  json["chosen"] = describe(fastest_way(cell).way);
  std::vector<const Timed*> by_time;
  for (const Timed& candidate : cell.candidates) by_time.push_back(&candidate);
  std::ranges::stable_sort(by_time, {}, &Timed::median);
  for (const Timed* const candidate : by_time) json["ways"].push_back(json_of(*candidate));
  return json;
}

}  // namespace

std::string table_head(bool check, const Arrangement& arrangement) {
  const std::string hosts = arrangement.hosts == 1
                                ? "one host"
                                : fmt::format("{} hosts, at most {} on one", arrangement.hosts,
                                              arrangement.most_on_a_host);
  return fmt::format(
             "# {} ranks on {}; us of a call on the slowest rank, medians of rounds in "
             "which all ways took turns\n",
             arrangement.ranks, hosts) +
         fmt::format(kRow, "# collective", "size", check ? "fastest" : "chosen", "us",
                     check ? "by itself" : "by the rules", "us", check ? "regret" : "gain");
}

std::string table_row(bool check, const Cell& cell) {
  Finding found = fastest_way(cell);
  if (check) found = {best_of(cell).way, best_of(cell).median(), 0};
  const double own = cell.own.median();
  const double last = check ? regret(cell) : std::max(0.0, own / found.us - 1);
  return fmt::format(kRow, name_of(cell.collective), tools::size_text(cell.bytes),
                     describe(found.way), us_text(found.us), cell.own.way.algorithm, us_text(own),
                     percent_text(last));
}

std::string regret_text(std::span<const Cell> cells) {
  const Summary summary = summary_of(cells);
  if (summary.worst_cell == nullptr) return "";
  return fmt::format("# regret: {} in the geometric mean of {} cells, {} at worst ({} of {})\n",
                     percent_text(summary.geometric_mean), cells.size(),
                     percent_text(summary.worst), name_of(summary.worst_cell->collective),
                     tools::size_text(summary.worst_cell->bytes));
}

std::string json_text(const Arrangement& arrangement, std::span<const Cell> cells) {
  const Summary summary = summary_of(cells);
  Json json;
  json["format"] = "tutti-tune";
  json["version"] = 1;
  json["ranks"] = arrangement.ranks;
  json["hosts"] = arrangement.hosts;
  json["most_on_a_host"] = arrangement.most_on_a_host;
  json["regret"] = {{"geometric_mean", summary.geometric_mean}, {"worst", summary.worst}};
  json["cells"] = Json::array();
  for (const Cell& cell : cells) json["cells"].push_back(json_of(cell));
  return json.dump(1) + "\n";
}

}  // namespace tutti::tune
