#include "tools/topo/measured.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/result.hpp"
#include "tools/program/cli.hpp"

namespace tutti::tools {
namespace {

using nlohmann::json;

double best_bandwidth(const json& row) {
  double best = 0;
  for (const char* form : {"out_of_place", "in_place"})
    if (const json& timing = row.at(form); !timing.is_null())
      best = std::max(best, timing.at("bus_bw").get<double>());
  return best;
}

std::vector<Measured> best_rows(const json& run) {
  std::vector<Measured> best;
  for (const json& row : run.at("results")) {
    const std::string collective =
        row.contains("collective") ? row.at("collective") : run.at("collective");
    auto known = std::ranges::find(best, collective, &Measured::collective);
    if (known == best.end()) {
      best.emplace_back();
      best.back().collective = collective;
      best.back().ranks = run.at("ranks").get<std::uint64_t>();
      best.back().hosts = run.at("hosts").get<std::uint64_t>();
      known = best.end() - 1;
    }
    const double bandwidth = best_bandwidth(row);
    if (bandwidth <= known->bus_bandwidth) continue;
    known->bus_bandwidth = bandwidth;
    known->bytes = row.at("size").get<std::uint64_t>();
    known->algorithm = row.value("algorithm", "");
  }
  std::erase_if(best, [](const Measured& row) { return row.bus_bandwidth <= 0; });
  return best;
}

std::string binary(std::uint64_t bytes) {
  constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  double value = static_cast<double>(bytes);
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.4g} {}", value, kUnits[unit]);
}

}  // namespace

Result<std::vector<Measured>> read_measured(const std::string& path, std::string_view text,
                                            const topo::Topology& topology) {
  std::vector<Measured> rows;
  try {
    rows = best_rows(json::parse(text));
  } catch (const json::exception& error) {
    return make_error(Code::kWrongData,
                      "{} is not the JSON of a bench run, as `tutti bench --json` writes it: {}",
                      shown_path(path), error.what());
  }
  if (rows.empty())
    return make_error(Code::kWrongData, "{} holds no bus bandwidth: no row was measured",
                      shown_path(path));
  if (rows[0].hosts > topology.hosts().size())
    return make_error(Code::kInvalidArgument,
                      "{} was measured on {} hosts, and the topology has {}: give the topology of "
                      "the machines that it ran on",
                      shown_path(path), rows[0].hosts, topology.hosts().size());
  return rows;
}

double network_of_a_host(const topo::Topology& topology) {
  std::vector<double> out(topology.hosts().size());
  for (const topo::Link& link : topology.links()) {
    const topo::Node& from = topology.node(link.from);
    if (link.kind == topo::LinkKind::kNetwork && from.host != topo::kNoHost &&
        topology.node(link.to).host != from.host)
      out[from.host] += link.bandwidth;
  }
  return out.size() < 2 ? 0 : *std::ranges::min_element(out);
}

std::string sentence(const Measured& measured, const topo::Topology& topology) {
  std::string text = fmt::format(
      "{}, {} ranks on {} host{}: {:.4g} GB/s bus bandwidth ({}{}{})", measured.collective,
      measured.ranks, measured.hosts, measured.hosts == 1 ? "" : "s", measured.bus_bandwidth,
      binary(measured.bytes), measured.algorithm.empty() ? "" : ", ", measured.algorithm);
  const double network = measured.hosts > 1 ? network_of_a_host(topology) : 0;
  if (network > 0)
    text +=
        fmt::format(", {:.0f} % of the network of a host", 100 * measured.bus_bandwidth / network);
  return text;
}

}  // namespace tutti::tools
