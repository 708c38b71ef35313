// How fast an all-gather can be on a network, exactly, and which cut forbids more.
//
// Let A be vertices that do not include all compute nodes. What the roots in A have to send must
// leave A, so an all-gather in which each root has one unit of data takes at least
//
//   (roots in A) / (capacity of the links that leave A)
//
// units of time, and the optimum is the largest such ratio over all A. It is attained: forest.hpp
// packs trees that do (in the limit of long messages that stream). The ratio is found by Newton's
// method on cuts: guess it, ask by max-flow whether a cut is worse, take that cut's ratio for the
// next guess. Each guess is the ratio of a real cut, a fraction of small whole numbers, so the
// result is exact.
//
// Source: Zhao et al., "ForestColl: Throughput-optimal collective communications on heterogeneous
// network fabrics" (arXiv 2402.06787), section 4; the paper bisects where this takes Newton's
// steps.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/topo/forest/network.hpp"
#include "tutti/error.hpp"

namespace tutti::topo::forest {

/// A fraction of whole numbers, neither negative nor above 2^56; compared exactly.
struct Ratio {
  std::int64_t numerator = 0;
  std::int64_t denominator = 1;  ///< greater than 0

  [[nodiscard]] double value() const {
    return static_cast<double>(numerator) / static_cast<double>(denominator);
  }
  [[nodiscard]] Ratio reduced() const;
  friend std::strong_ordering operator<=>(const Ratio& a, const Ratio& b) {
    return static_cast<__int128>(a.numerator) * b.denominator <=>
           static_cast<__int128>(b.numerator) * a.denominator;
  }
  friend bool operator==(const Ratio& a, const Ratio& b) { return (a <=> b) == 0; }
};

struct Optimum {
  /// Time until everybody has everything, if each root has one unit of data and a link of capacity
  /// c moves c units of data in one of time. 0/1 for one compute node. Reduced.
  Ratio time;
  /// The cut whose ratio it is, ascending; empty for one compute node.
  std::vector<Vertex> bottleneck;
};

/// With all compute nodes as roots: for all-gather. Errors are those of check().
Result<Optimum> find_optimum(const Network& network);
/// With some of them, or one for a broadcast. kInvalidArgument where a root is none of the compute
/// nodes or comes twice, or there is none.
Result<Optimum> find_optimum(const Network& network, std::span<const Vertex> roots);

/// GB/s: bytes of the whole result, over all roots, divided by the time; NCCL calls it algorithm
/// bandwidth. Infinite where the time is 0.
double algorithm_bandwidth(const Network& network, std::size_t roots, Ratio time);

/// "3 of 4 roots send through links of 25 GB/s that leave {gpu0, gpu1, gpu2, nvs}": for people.
std::string describe_bottleneck(const Network& network, std::span<const Vertex> roots,
                                const Optimum& optimum);

}  // namespace tutti::topo::forest
