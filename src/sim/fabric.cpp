#include "src/sim/fabric.hpp"

#include <fmt/format.h>

#include "src/base/result.hpp"

namespace tutti::sim {
namespace {

Status check_pair(const Fabric& fabric, Rank from, Rank to) {
  TUTTI_CHECK(from >= 0 && to >= 0 && from < fabric.ranks() && to < fabric.ranks() && from != to,
              "path from rank {} to {} of {}", from, to, fabric.ranks());
  return ok_status();
}

/// The two links between a rank and a switch; half the way from rank to rank each.
void add_port(std::vector<Link>& links, Rank rank, std::string_view up, std::string_view down,
              double bandwidth, double latency) {
  links.push_back({bandwidth, latency / 2, fmt::format("rank {} {}", rank, up)});
  links.push_back({bandwidth, latency / 2, fmt::format("rank {} {}", rank, down)});
}

}  // namespace

UniformSwitch::UniformSwitch(const Shape& shape) : ranks_(shape.ranks) {
  for (Rank rank = 0; rank < ranks_; ++rank)
    add_port(links_, rank, "up", "down", shape.bandwidth, shape.latency);
}

Result<std::vector<LinkId>> UniformSwitch::path(Rank from, Rank to, Lane /*lane*/) {
  TUTTI_TRY(check_pair(*this, from, to));
  return std::vector{2 * static_cast<LinkId>(from), 2 * static_cast<LinkId>(to) + 1};
}

TwoLevelSwitch::TwoLevelSwitch(const Shape& shape)
    : nodes_(shape.nodes), ranks_per_node_(shape.ranks_per_node) {
  for (Rank rank = 0; rank < ranks(); ++rank) {
    add_port(links_, rank, "up", "down", shape.inner_bandwidth, shape.inner_latency);
    add_port(links_, rank, "to network", "from network", shape.outer_bandwidth,
             shape.outer_latency);
  }
}

Result<std::vector<LinkId>> TwoLevelSwitch::path(Rank from, Rank to, Lane /*lane*/) {
  TUTTI_TRY(check_pair(*this, from, to));
  const LinkId way = from / ranks_per_node_ == to / ranks_per_node_ ? 0 : 2;
  return std::vector{4 * static_cast<LinkId>(from) + way, 4 * static_cast<LinkId>(to) + way + 1};
}

}  // namespace tutti::sim
