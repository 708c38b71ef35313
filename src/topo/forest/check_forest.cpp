// Holds a forest against its network.
#include <map>
#include <utility>
#include <vector>

#include "src/base/result.hpp"
#include "src/topo/forest/forest.hpp"

namespace tutti::topo::forest {
namespace {

using Ends = std::pair<Vertex, Vertex>;

class Checker {
 public:
  Checker(const Forest& forest, const Network& network)
      : forest_(forest), network_(network), compute_nodes_(network.compute_nodes()) {
    for (const Network::Link& link : network.links)
      capacity_[{link.from, link.to}] += link.capacity;
  }

  Status run() {
    TUTTI_CHECK(forest_.ranks == static_cast<std::int32_t>(compute_nodes_.size()),
                "the forest has {} ranks, the network {}", forest_.ranks, compute_nodes_.size());
    for (const Tree& tree : forest_.trees) TUTTI_TRY(check_tree(tree));
    TUTTI_CHECK(weight_of_.size() == forest_.roots.size(), "{} ranks have trees, {} are roots",
                weight_of_.size(), forest_.roots.size());
    for (const Rank root : forest_.roots) {
      TUTTI_CHECK(weight_of_[root] == forest_.trees_per_root,
                  "the trees from rank {} weigh {} together instead of {}", root, weight_of_[root],
                  forest_.trees_per_root);
    }
    return check_loads();
  }

 private:
  Status check_tree(const Tree& tree) {
    TUTTI_CHECK(tree.root >= 0 && tree.root < forest_.ranks, "a tree begins at rank {}", tree.root);
    TUTTI_CHECK(tree.weight > 0, "a tree from rank {} weighs {}", tree.root, tree.weight);
    weight_of_[tree.root] += tree.weight;
    std::vector<bool> reached(compute_nodes_.size(), false);
    reached[static_cast<std::size_t>(tree.root)] = true;
    for (const Hop& hop : tree.hops) {
      TUTTI_CHECK(
          hop.from >= 0 && hop.from < forest_.ranks && hop.to >= 0 && hop.to < forest_.ranks,
          "a tree from rank {} has a hop from {} to {}", tree.root, hop.from, hop.to);
      TUTTI_CHECK(reached[static_cast<std::size_t>(hop.from)],
                  "a tree from rank {} has a hop from {} before it gets there", tree.root,
                  hop.from);
      TUTTI_CHECK(!reached[static_cast<std::size_t>(hop.to)],
                  "a tree from rank {} reaches {} twice", tree.root, hop.to);
      reached[static_cast<std::size_t>(hop.to)] = true;
      TUTTI_TRY(check_routes(hop, tree.weight));
    }
    TUTTI_CHECK(tree.hops.size() + 1 == compute_nodes_.size(),
                "a tree from rank {} reaches {} of {} ranks", tree.root, tree.hops.size() + 1,
                forest_.ranks);
    return ok_status();
  }

  Status check_routes(const Hop& hop, std::int64_t weight) {
    for (const Route& route : hop.routes) {
      TUTTI_CHECK(route.weight > 0 && route.path.size() >= 2 &&
                      route.path.front() == compute_nodes_[static_cast<std::size_t>(hop.from)] &&
                      route.path.back() == compute_nodes_[static_cast<std::size_t>(hop.to)],
                  "a route of weight {} does not lead from rank {} to {}", route.weight, hop.from,
                  hop.to);
      weight -= route.weight;
      for (std::size_t i = 0; i + 1 < route.path.size(); ++i) {
        TUTTI_CHECK(i == 0 || !network_.nodes[route.path[i]].computes,
                    "a route from rank {} to {} passes through {}", hop.from, hop.to,
                    network_.nodes[route.path[i]].name);
        load_[{route.path[i], route.path[i + 1]}] += route.weight;
      }
    }
    TUTTI_CHECK(weight == 0, "the routes from rank {} to {} miss the tree's weight by {}", hop.from,
                hop.to, weight);
    return ok_status();
  }

  /// Each root's unit of data is cut into trees_per_root shares: load / trees_per_root of it passes
  /// a link, and time * capacity can.
  Status check_loads() const {
    TUTTI_CHECK(forest_.time >= forest_.optimal_time, "the time {}/{} is below the optimum",
                forest_.time.numerator, forest_.time.denominator);
    for (const auto& [ends, load] : load_) {
      const auto link = capacity_.find(ends);
      TUTTI_CHECK(link != capacity_.end(), "a route follows a link from {} to {}, which is none",
                  ends.first, ends.second);
      const auto needed = static_cast<__int128>(load) * forest_.time.denominator;
      const auto fits =
          static_cast<__int128>(forest_.time.numerator) * link->second * forest_.trees_per_root;
      TUTTI_CHECK(needed <= fits,
                  "{} shares pass the link from {} to {}, which has not the capacity", load,
                  network_.nodes[ends.first].name, network_.nodes[ends.second].name);
    }
    return ok_status();
  }

  const Forest& forest_;
  const Network& network_;
  std::vector<Vertex> compute_nodes_;
  std::map<Ends, std::int64_t> capacity_, load_;
  std::map<Rank, std::int64_t> weight_of_;
};

}  // namespace

Status check(const Forest& forest, const Network& network) {
  return Checker(forest, network).run();
}

}  // namespace tutti::topo::forest
