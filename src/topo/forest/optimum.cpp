#include "src/topo/forest/optimum.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/base/result.hpp"
#include "src/topo/forest/shortage.hpp"

namespace tutti::topo::forest {
namespace {

/// A cut, by its inside.
struct Cut {
  std::vector<bool> inside;
  std::int64_t roots = 0;     ///< inside
  std::int64_t capacity = 0;  ///< of the links that leave

  [[nodiscard]] Ratio ratio() const { return {roots, capacity}; }
};

class Search {
 public:
  Search(const Network& network, std::span<const Vertex> roots)
      : network_(network), roots_(roots), compute_nodes_(network.compute_nodes()) {}

  Result<Optimum> run() {
    Cut worst = first_guess();
    while (std::optional<Cut> worse = worse_than(worst.ratio())) worst = *std::move(worse);
    Optimum found{worst.ratio().reduced(), {}};
    for (Vertex v = 0; v < network_.nodes.size(); ++v) {
      if (worst.inside[v]) found.bottleneck.push_back(v);
    }
    return found;
  }

 private:
  [[nodiscard]] Cut cut_of(std::vector<bool> inside) const {
    Cut cut{std::move(inside), 0, 0};
    for (const Vertex root : roots_) cut.roots += cut.inside[root] ? 1 : 0;
    for (const Network::Link& link : network_.links) {
      if (cut.inside[link.from] && !cut.inside[link.to]) cut.capacity += link.capacity;
    }
    return cut;
  }

  /// The worst of the cuts that leave out one compute node. A root sends to somebody, so one of
  /// these ratios is above 0, and so is every capacity, since everybody reaches everybody.
  [[nodiscard]] Cut first_guess() const {
    std::optional<Cut> worst;
    for (const Vertex v : compute_nodes_) {
      std::vector<bool> inside(network_.nodes.size(), true);
      inside[v] = false;
      Cut cut = cut_of(std::move(inside));
      if (!worst || worst->ratio() < cut.ratio()) worst = std::move(cut);
    }
    return *std::move(worst);
  }

  /// A source feeds each root at the rate 1 / guess, times the guess's numerator so that all is
  /// whole. Every compute node gets everything unless a cut has a larger ratio.
  [[nodiscard]] std::optional<Cut> worse_than(Ratio guess) const {
    FlowGraph graph(network_.nodes.size());
    const Vertex source = graph.add_vertex();
    for (const Network::Link& link : network_.links) {
      graph.add_arc(link.from, link.to, link.capacity * guess.numerator);
    }
    for (const Vertex root : roots_) graph.add_arc(source, root, guess.denominator);
    const std::int64_t needed = static_cast<std::int64_t>(roots_.size()) * guess.denominator;
    const std::optional<Shortage> shortage =
        find_shortage(std::move(graph), source, compute_nodes_, needed);
    if (!shortage) return std::nullopt;
    std::vector<bool> inside(network_.nodes.size());
    for (Vertex v = 0; v < inside.size(); ++v) inside[v] = !shortage->outside.contains(v);
    return cut_of(std::move(inside));
  }

  const Network& network_;
  std::span<const Vertex> roots_;
  std::vector<Vertex> compute_nodes_;
};

Status check_roots(const Network& network, std::span<const Vertex> roots) {
  std::vector<bool> seen(network.nodes.size(), false);
  for (const Vertex root : roots) {
    if (root >= network.nodes.size() || !network.nodes[root].computes) {
      return make_error(Code::kInvalidArgument, "root {} is no compute node of the network", root);
    }
    if (seen[root]) {
      return make_error(Code::kInvalidArgument, "root {} is named twice", network.nodes[root].name);
    }
    seen[root] = true;
  }
  if (roots.empty()) return make_error(Code::kInvalidArgument, "no root: name one at least");
  return ok_status();
}

}  // namespace

Ratio Ratio::reduced() const {
  const std::int64_t common = std::gcd(numerator, denominator);
  return {numerator / common, denominator / common};
}

Result<Optimum> find_optimum(const Network& network) {
  return find_optimum(network, network.compute_nodes());
}

Result<Optimum> find_optimum(const Network& network, std::span<const Vertex> roots) {
  TUTTI_TRY(check(network));
  TUTTI_TRY(check_roots(network, roots));
  if (network.compute_nodes().size() == 1) return Optimum{};
  return Search(network, roots).run();
}

double algorithm_bandwidth(const Network& network, std::size_t roots, Ratio time) {
  if (time.numerator == 0) return std::numeric_limits<double>::infinity();
  return network.unit * static_cast<double>(roots) / time.value();
}

std::string describe_bottleneck(const Network& network, std::span<const Vertex> roots,
                                const Optimum& optimum) {
  std::vector<bool> inside(network.nodes.size(), false);
  std::vector<std::string_view> names;
  for (const Vertex v : optimum.bottleneck) {
    inside[v] = true;
    names.emplace_back(network.nodes[v].name);
  }
  std::int64_t capacity = 0;
  for (const Network::Link& link : network.links) {
    if (inside[link.from] && !inside[link.to]) capacity += link.capacity;
  }
  const auto sending =
      std::count_if(roots.begin(), roots.end(), [&](Vertex root) { return inside[root]; });
  return fmt::format("{} of {} roots send through links of {:g} GB/s that leave {{{}}}", sending,
                     roots.size(), static_cast<double>(capacity) * network.unit,
                     fmt::join(names, ", "));
}

}  // namespace tutti::topo::forest
