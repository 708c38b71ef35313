#include "algorithms/algorithms.hpp"

#include <vector>

#include "algorithms/hierarchical.hpp"
#include "algorithms/torus.hpp"

namespace tutti::algorithms {
namespace {

/// Inside a node every rank reaches every other at once; what runs between nodes is `between`.
Leaves leaves(const ir::Algorithm& between) { return {one_shot(), direct(), between}; }

/// Straight from where data is to where it is wanted: each contribution is added where the sum is
/// wanted, or at one owner.
ir::Algorithm straight() {
  static const auto kOne = [](const ir::Request& request) -> const ir::Algorithm& {
    static const ir::Algorithm kOneShot = one_shot(), kTwoShot = two_shot(), kDirect = direct();
    if (request.collective == Collective::kAllReduce) return kTwoShot;
    return reduces(request.collective) ? kOneShot : kDirect;
  };
  return {.name = "straight",
          .summary = "",
          .supports = [](const ir::Request& request) { return kOne(request).supports(request); },
          .generate = [](const ir::Request& request) { return kOne(request).generate(request); }};
}

}  // namespace

std::span<const ir::Algorithm> all() {
  static const ir::Algorithm kAll[] = {
      one_shot(),
      two_shot(),
      direct(),
      spread(),
      ring(),
      chain(),
      neighbor_exchange(),
      binomial(),
      k_nomial_4(),
      bine(),
      double_binary_tree(),
      recursive_doubling(),
      recursive_multiplying(),
      rabenseifner(),
      swing(),
      swing_latency(),
      circulant(),
      circulant_blocks(),
      pat(),
      bruck(),
      pairwise(),
      fixed_tree(),
      hierarchical("hierarchical_direct",
                   "on all rails: in nodes, straight to every node, in nodes", leaves(straight())),
      hierarchical("hierarchical_ring", "on all rails: in nodes, a ring across them, in nodes",
                   leaves(ring())),
      hierarchical("hierarchical_circulant",
                   "on all rails: in nodes, circulant across them, in nodes", leaves(circulant())),
      hierarchical("hierarchical_tree",
                   "on all rails: in nodes, double binary trees across them, in nodes",
                   leaves(double_binary_tree())),
      hierarchical("hierarchical_pairwise",
                   "all_to_all in two levels: in nodes, then larger messages across them",
                   leaves(pairwise())),
      hierarchical("hierarchical_halving",
                   "on all rails: in nodes, halving and doubling across them, in nodes",
                   leaves(rabenseifner())),
      blue_connect("blue_connect",
                   "one dimension of a grid after the other, nearest first, and back", ring()),
      torus("torus", "a copy for each link of a torus, each beginning in its own direction",
            ring()),
      three_step(),
      leader("leader_tree", "one rank speaks for each node, and they form double binary trees",
             leaves(double_binary_tree())),
      leader("leader_doubling", "one rank speaks for each node, and they double recursively",
             leaves(recursive_doubling())),
      leader("tree_over_chains", "a chain in each node, and double binary trees join their ends",
             {chain(), chain(), double_binary_tree()})};
  return kAll;
}

std::span<const ir::Algorithm> with_in_network() {
  static const std::vector<ir::Algorithm> kBoth = [] {
    std::vector<ir::Algorithm> both(all().begin(), all().end());
    both.insert(both.end(), in_network().begin(), in_network().end());
    return both;
  }();
  return kBoth;
}

}  // namespace tutti::algorithms
