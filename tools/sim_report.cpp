#include "tools/sim_report.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/bench_sizes.hpp"
#include "tools/cli.hpp"

namespace tutti::simtool {
namespace {

using Json = nlohmann::ordered_json;

std::string link_name(const Machine& machine, std::optional<sim::LinkId> link) {
  return link ? machine.fabric->links()[*link].name : "-";
}

double utilisation(const Point& point) {
  return point.outcome.bottleneck ? point.outcome.links[*point.outcome.bottleneck].utilisation : 0;
}

/// The used links, the busiest first, at most `most`.
std::vector<sim::LinkId> busiest(const Point& point, std::size_t most) {
  const auto& links = point.outcome.links;
  std::vector<sim::LinkId> order(links.size());
  std::iota(order.begin(), order.end(), 0U);
  std::erase_if(order, [&](sim::LinkId id) { return links[id].bytes == 0; });
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](sim::LinkId id) { return links[id].utilisation; });
  order.resize(std::min(order.size(), most));
  return order;
}

std::string quoted(std::string text) {
  for (std::size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2)
    text.insert(at, 1, '"');
  return "\"" + text + "\"";
}

Json link_json(const Point& point, const Machine& machine, sim::LinkId id) {
  const sim::LinkUse& use = point.outcome.links[id];
  return {{"name", machine.fabric->links()[id].name},
          {"bytes", use.bytes},
          {"busy_us", use.busy_us},
          {"utilisation", use.utilisation}};
}

}  // namespace

std::string number(double value) {
  if (value == 0) return "0";
  const int digits = value >= 1000 ? 0 : value >= 100 ? 1 : value >= 10 ? 2 : 3;
  return fmt::format("{:.{}f}", value, digits);
}

std::string table_text(std::span<const Point> points, const Machine& machine) {
  tools::Table table({"SIZE", "ALGORITHM", "TIME us", "ALGBW GB/s", "BUSBW GB/s", "BOUND us",
                      "EFF %", "BOUND IS SET BY", "USED %", "BUSIEST LINK"});
  for (const Point& point : points)
    table.add({bench::size_text(point.bytes), point.algorithm, number(point.outcome.time_us),
               number(point.outcome.algorithm_bandwidth), number(point.outcome.bus_bandwidth),
               point.bound ? number(point.bound->us) : "-",
               point.bound ? fmt::format("{:.1f}", 100 * point.efficiency()) : "-",
               point.bound ? point.bound->reason : "-",
               fmt::format("{:.1f}", 100 * utilisation(point)),
               link_name(machine, point.outcome.bottleneck)});
  return table.text({0, 2, 3, 4, 5, 6, 8});
}

std::string links_text(std::span<const Point> points, const Machine& machine) {
  constexpr std::size_t kShown = 10;
  tools::Table table({"SIZE", "ALGORITHM", "BYTES", "BUSY us", "USED %", "LINK"});
  for (const Point& point : points)
    for (const sim::LinkId id : busiest(point, kShown)) {
      const sim::LinkUse& use = point.outcome.links[id];
      table.add({bench::size_text(point.bytes), point.algorithm, std::to_string(use.bytes),
                 number(use.busy_us), fmt::format("{:.1f}", 100 * use.utilisation),
                 machine.fabric->links()[id].name});
    }
  return table.text({0, 2, 3, 4});
}

std::string csv_text(std::span<const Point> points, const Machine& machine) {
  std::string text =
      "size,algorithm,time_us,alg_bw,bus_bw,bound_us,bound,efficiency,bottleneck,utilisation\n";
  for (const Point& point : points)
    text += fmt::format("{},{},{},{},{},{},{},{},{},{}\n", point.bytes, point.algorithm,
                        point.outcome.time_us, point.outcome.algorithm_bandwidth,
                        point.outcome.bus_bandwidth,
                        point.bound ? fmt::format("{}", point.bound->us) : "",
                        quoted(point.bound ? point.bound->reason : ""),
                        point.bound ? fmt::format("{}", point.efficiency()) : "",
                        quoted(link_name(machine, point.outcome.bottleneck)), utilisation(point));
  return text;
}

std::string json_text(std::span<const Point> points, const Plan& plan, const Machine& machine) {
  constexpr std::size_t kLinks = 10;
  Json results = Json::array();
  for (const Point& point : points) {
    Json links = Json::array();
    for (const sim::LinkId id : busiest(point, kLinks))
      links.push_back(link_json(point, machine, id));
    Json row = {{"size", point.bytes},
                {"algorithm", point.algorithm},
                {"time_us", point.outcome.time_us},
                {"alg_bw", point.outcome.algorithm_bandwidth},
                {"bus_bw", point.outcome.bus_bandwidth},
                {"bound_us", nullptr},
                {"bound", nullptr},
                {"efficiency", nullptr},
                {"messages", point.outcome.messages},
                {"most_bytes_sent", point.outcome.most_bytes_sent},
                {"links", std::move(links)}};
    if (point.bound) {
      row["bound_us"] = point.bound->us;
      row["bound"] = point.bound->reason;
      row["efficiency"] = point.efficiency();
    }
    results.push_back(std::move(row));
  }
  const sim::Costs& costs = plan.costs;
  const Json json = {{"tutti_format", 1},
                     {"collective", name_of(plan.request.collective)},
                     {"machine", machine.name},
                     {"ranks", plan.request.ranks},
                     {"root", rooted(plan.request.collective) ? plan.request.root : -1},
                     {"costs",
                      {{"message_us", costs.message_us},
                       {"step_us", costs.step_us},
                       {"copy_ps_per_byte", costs.copy_ps_per_byte},
                       {"reduce_ps_per_byte", costs.reduce_ps_per_byte},
                       {"ports", costs.ports}}},
                     {"assumptions", machine.assumptions},
                     {"results", std::move(results)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tutti::simtool
