// How busy the links are: on the left who sends how much to whom, on the right the busiest links.
#include <algorithm>
#include <cmath>

#include "src/base/result.hpp"
#include "src/sim/volumes.hpp"
#include "tools/picture/svg.hpp"
#include "tools/program/sizes.hpp"
#include "tools/sim/report.hpp"

namespace tutti::simtool {
namespace {

using tools::kBand;
using tools::kFaint;
using tools::kInk;
using tools::kSoft;
using tools::Svg;
using tools::time_text;

constexpr Rank kMostMatrixRanks = 64;
constexpr std::size_t kMostLinks = 28;
constexpr double kHeatTop = 104, kMatrix = 400, kMatrixLeft = 60, kRow = 15, kBar = 180,
                 kNames = 250;

/// White, over yellow and red, to dark: 0 to 1.
std::string heat(double share) {
  struct Stop {
    double at, red, green, blue;
  };
  constexpr Stop kStops[] = {
      {0, 255, 247, 220}, {0.4, 253, 187, 99}, {0.75, 222, 73, 52}, {1, 120, 10, 40}};
  const double at = std::clamp(share, 0.0, 1.0);
  const Stop* stop = std::begin(kStops);
  while (stop + 2 != std::end(kStops) && at > stop[1].at) ++stop;
  const double part = (at - stop->at) / (stop[1].at - stop->at);
  const auto mix = [&](double a, double b) {
    return static_cast<int>(std::lround(a + part * (b - a)));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(stop->red, stop[1].red),
                     mix(stop->green, stop[1].green), mix(stop->blue, stop[1].blue));
}

/// Bytes from each rank to each other. Where the network adds or copies, it is one more place
/// behind the ranks.
std::vector<std::vector<double>> traffic_of(const Traced& traced) {
  const ir::Schedule& schedule = traced.schedule;
  const auto ranks = static_cast<std::size_t>(schedule.request.ranks);
  const std::size_t places = ranks + (schedule.groups.empty() ? 0 : 1);
  const sim::Amount amount = amount_for(schedule.request, traced.point.bytes);
  const sim::Volumes volumes(schedule, amount, 0);
  std::vector<std::vector<double>> bytes(places, std::vector<double>(places, 0));
  for (std::size_t rank = 0; rank < ranks; ++rank)
    for (const ir::Step& step : schedule.programs[rank].steps) {
      if (ir::is_local(step.verb) || step.verb == ir::Verb::kRecv) continue;
      const bool in_group = ir::uses_group(step.verb);
      const std::size_t peer = in_group ? ranks : static_cast<std::size_t>(step.peer);
      const auto own = static_cast<Rank>(rank);
      bytes[rank][peer] += static_cast<double>(volumes.bytes(own, step.src, 0));
      if (in_group) bytes[peer][rank] += static_cast<double>(volumes.bytes(own, step.dst, 0));
    }
  return bytes;
}

void draw_matrix(Svg& svg, const Traced& traced) {
  const auto bytes = traffic_of(traced);
  const auto ranks = bytes.size();
  const bool has_network = !traced.schedule.groups.empty();
  double most = 0;
  for (const auto& row : bytes) most = std::max(most, std::ranges::max(row));
  const double cell = kMatrix / static_cast<double>(ranks);
  svg.words(kMatrixLeft, kHeatTop - 26, "start", kInk,
            fmt::format("bytes from {} (down) to {} (across): white none, dark {}",
                        has_network ? "these" : "rank", has_network ? "these" : "rank",
                        tools::size_text(static_cast<std::size_t>(most))));
  svg.rect(kMatrixLeft, kHeatTop, kMatrix, kMatrix, kFaint);
  const std::size_t label_step = ranks <= 16 ? 1 : ranks <= 32 ? 4 : 8;
  for (std::size_t from = 0; from < ranks; ++from) {
    const double y = kHeatTop + cell * static_cast<double>(from);
    for (std::size_t to = 0; to < ranks; ++to) {
      const double share = most > 0 ? bytes[from][to] / most : 0;
      svg.rect(kMatrixLeft + cell * static_cast<double>(to) + 0.5, y + 0.5, cell - 1, cell - 1,
               share > 0 ? heat(share) : "white");
    }
    const bool is_network = has_network && from + 1 == ranks;
    if (from % label_step != 0 && !is_network) continue;
    const double middle = cell * (static_cast<double>(from) + 0.5);
    const std::string label = is_network ? "net" : std::to_string(from);
    svg.words(kMatrixLeft - 6, kHeatTop + middle + 4, "end", kSoft, label, 10);
    svg.words(kMatrixLeft + middle, kHeatTop - 6, "middle", kSoft, label, 10);
  }
}

void draw_links(Svg& svg, const Traced& traced, const Machine& machine, double left) {
  const std::vector<LinkGroup> groups = link_groups(traced.point, machine);
  const std::size_t shown = std::min(groups.size(), kMostLinks);
  std::size_t used = 0, told = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    used += groups[i].links;
    told += i < shown ? groups[i].links : 0;
  }
  svg.words(left, kHeatTop - 26, "start", kInk,
            told == used ? fmt::format("the {} links in use, % of what they could carry", used)
                         : fmt::format("the busiest {} of {} links in use, % of what they could "
                                       "carry",
                                       told, used));
  for (std::size_t i = 0; i < shown; ++i) {
    const double share = traced.point.outcome.links[groups[i].first].utilisation;
    const double y = kHeatTop + kRow * static_cast<double>(i);
    svg.words(left + kNames - 8, y + 10, "end", kSoft, groups[i].name, 11);
    svg.rect(left + kNames, y, kBar, kRow - 3, kBand);
    svg.rect(left + kNames, y, std::max(kBar * share, 1.0), kRow - 3, heat(share));
    svg.words(left + kNames + kBar + 6, y + 10, "start", kInk, fmt::format("{:.1f}", 100 * share),
              11);
  }
}

}  // namespace

Result<std::string> heat_svg(const Traced& traced, const Machine& machine) {
  const ir::Request& request = traced.schedule.request;
  const bool has_matrix = request.ranks <= kMostMatrixRanks;
  const double left = has_matrix ? kMatrixLeft + kMatrix + 30 : 20;
  Svg svg;
  svg.heading(fmt::format("{} of {} by {}: {}", name_of(request.collective),
                          tools::size_text(traced.point.bytes), traced.point.algorithm,
                          time_text(traced.point.outcome.time_us)),
              machine.name);
  if (has_matrix) draw_matrix(svg, traced);
  draw_links(svg, traced, machine, left);
  return svg.page(left + kNames + kBar + 60, kHeatTop + kMostLinks * kRow + 24);
}

}  // namespace tutti::simtool
