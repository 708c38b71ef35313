#include "tools/sim/report.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/program/cli.hpp"
#include "tools/program/sizes.hpp"

namespace tutti::simtool {
namespace {

using Json = nlohmann::ordered_json;

/// What is used the most: a link, or what the switches of a tree can add.
struct Busiest {
  std::string name = "-";
  double utilisation = 0;
};
Busiest busiest_of(const Point& point, const Machine& machine) {
  Busiest busiest;
  if (point.outcome.bottleneck)
    busiest = {machine.fabric->links()[*point.outcome.bottleneck].name,
               point.outcome.links[*point.outcome.bottleneck].utilisation};
  for (const sim::GroupUse& group : point.outcome.groups)
    if (group.utilisation > busiest.utilisation)
      busiest = {"sums of " + group.tree, group.utilisation};
  return busiest;
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

/// Of the end of a link: "nic" of "h0/nic3", "place" of "0.1", which has no letters.
std::string kind_of_end(std::string_view name) {
  name.remove_prefix(name.rfind('/') + 1);  // nothing where there is none
  std::string kind;
  for (const char c : name) {
    const bool is_number = (c >= '0' && c <= '9') || c == '.';
    const bool doubles = c == ' ' && (kind.empty() || kind.back() == ' ');
    if (!is_number && !doubles) kind += c;
  }
  return kind.empty() ? "place" : kind;
}

/// "gpu -> nic" of "h0/gpu1 -> h0/nic1", "rank up" of "rank 3 up".
std::string kind_of(std::string_view link) {
  constexpr std::string_view kArrow = " -> ";
  const std::size_t arrow = link.find(kArrow);
  if (arrow == link.npos) return kind_of_end(link);
  return kind_of_end(link.substr(0, arrow)) + std::string(kArrow) +
         kind_of_end(link.substr(arrow + kArrow.size()));
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

LiveTable::LiveTable(const Plan& plan, const Machine& machine)
    : machine_(&machine), widths_{4, 9, 9, 10, 10, 9, 5, 15, 6, 0} {
  for (const std::size_t size : plan.sizes) {
    const auto bytes = sim::size_of_call(plan.request, amount_for(plan.request, size));
    const std::string text = tools::size_text(static_cast<std::size_t>(bytes));
    widths_[0] = std::max(widths_[0], text.size());
  }
  for (const std::string& name : plan.algorithms) widths_[1] = std::max(widths_[1], name.size());
  if (machine.topology == nullptr) return;
  widths_[7] = std::string_view("worst of all cuts (forest)").size();
  constexpr std::string_view kOut = "links out of ";
  const auto make_room = [&](std::string_view name) {
    widths_[7] = std::max(widths_[7], kOut.size() + name.size());
  };
  for (const topo::Host& host : machine.topology->hosts()) make_room(host.name);
  for (const topo::NodeId rank : machine.placement.ranks)
    make_room(topo::full_name(*machine.topology, rank));
}

std::string LiveTable::line(const std::vector<std::string>& cells) const {
  constexpr std::array kIsNumber = {true, false, true, true, true, true, true, false, true, false};
  std::string text;
  for (std::size_t i = 0; i < cells.size(); ++i)
    text += kIsNumber[i] ? fmt::format("{:>{}}  ", cells[i], widths_[i])
                         : fmt::format("{:<{}}  ", cells[i], widths_[i]);
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

std::string LiveTable::header() const {
  return line({"SIZE", "ALGORITHM", "TIME us", "ALGBW GB/s", "BUSBW GB/s", "BOUND us", "EFF %",
               "BOUND IS SET BY", "USED %", "BUSIEST LINK"});
}

std::string LiveTable::row(const Point& point) const {
  const Busiest busiest = busiest_of(point, *machine_);
  return line({tools::size_text(point.bytes), point.algorithm, number(point.outcome.time_us),
               number(point.outcome.algorithm_bandwidth), number(point.outcome.bus_bandwidth),
               point.bound ? number(point.bound->us) : "-",
               point.bound ? fmt::format("{:.1f}", 100 * point.efficiency()) : "-",
               point.bound ? point.bound->reason : "-",
               fmt::format("{:.1f}", 100 * busiest.utilisation), busiest.name});
}

std::vector<LinkGroup> link_groups(const Point& point, const Machine& machine) {
  const auto links = machine.fabric->links();
  const auto& uses = point.outcome.links;
  std::vector<LinkGroup> groups;
  std::map<std::tuple<std::string, std::uint64_t, std::string>, std::size_t> known;
  for (const sim::LinkId id : busiest(point, uses.size())) {
    const std::string kind = kind_of(links[id].name);
    const auto [at, is_new] = known.try_emplace(
        {kind, uses[id].bytes, fmt::format("{:.1f}", 100 * uses[id].utilisation)}, groups.size());
    if (is_new) groups.push_back({id, 0, links[id].name});
    LinkGroup& group = groups[at->second];
    if (++group.links > 1) group.name = fmt::format("{} alike: {}", group.links, kind);
  }
  return groups;
}

std::string links_text(std::span<const Point> points, const Machine& machine) {
  constexpr std::size_t kShown = 10;
  tools::Table table({"SIZE", "ALGORITHM", "BYTES", "BUSY us", "USED %", "LINK"});
  for (const Point& point : points) {
    const std::vector<LinkGroup> groups = link_groups(point, machine);
    for (const LinkGroup& group : std::span(groups).first(std::min(groups.size(), kShown))) {
      const sim::LinkUse& use = point.outcome.links[group.first];
      const std::string& name = machine.fabric->links()[group.first].name;
      table.add({tools::size_text(point.bytes), point.algorithm, std::to_string(use.bytes),
                 number(use.busy_us), fmt::format("{:.1f}", 100 * use.utilisation),
                 group.links > 1 ? fmt::format("{}, as {}", group.name, name) : name});
    }
  }
  return table.text({0, 2, 3, 4});
}

std::string csv_text(std::span<const Point> points, const Machine& machine) {
  std::string text =
      "size,algorithm,time_us,alg_bw,bus_bw,bound_us,bound,efficiency,bottleneck,utilisation\n";
  for (const Point& point : points) {
    const Busiest busiest = busiest_of(point, machine);
    text += fmt::format("{},{},{},{},{},{},{},{},{},{}\n", point.bytes, point.algorithm,
                        point.outcome.time_us, point.outcome.algorithm_bandwidth,
                        point.outcome.bus_bandwidth,
                        point.bound ? fmt::format("{}", point.bound->us) : "",
                        quoted(point.bound ? point.bound->reason : ""),
                        point.bound ? fmt::format("{}", point.efficiency()) : "",
                        quoted(busiest.name), busiest.utilisation);
  }
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
    for (const sim::GroupUse& group : point.outcome.groups)
      row["groups"].push_back({{"tree", group.tree},
                               {"operations", group.operations},
                               {"busy_us", group.busy_us},
                               {"utilisation", group.utilisation}});
    if (point.bound) {
      row["bound_us"] = point.bound->us;
      row["bound"] = point.bound->reason;
      row["efficiency"] = point.efficiency();
    }
    results.push_back(std::move(row));
  }
  const sim::Costs& costs = plan.costs;
  Json json = {{"tutti_format", 1},
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
  if (plan.compressed)
    json["compression"] = {{"format", plan.compressed->compression.text()},
                           {"share_of_bytes", costs.formats.share},
                           {"encode_ps_per_byte", costs.formats.encode_ps_per_byte},
                           {"decode_ps_per_byte", costs.formats.decode_ps_per_byte}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tutti::simtool
