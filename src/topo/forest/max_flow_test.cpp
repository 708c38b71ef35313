#include "src/topo/forest/max_flow.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/topo/forest/shortage.hpp"

namespace tutti::topo::forest {
namespace {

struct TestArc {
  Vertex from, to;
  std::int64_t capacity;
};

FlowGraph graph_of(std::size_t vertices, const std::vector<TestArc>& arcs) {
  FlowGraph graph(vertices);
  for (const TestArc& arc : arcs) graph.add_arc(arc.from, arc.to, arc.capacity);
  return graph;
}

std::int64_t entering(const std::vector<TestArc>& arcs, std::uint64_t outside) {
  std::int64_t sum = 0;
  for (const TestArc& arc : arcs) {
    if ((outside >> arc.from & 1U) == 0 && (outside >> arc.to & 1U) == 1) sum += arc.capacity;
  }
  return sum;
}

/// The smallest of all cuts.
std::int64_t smallest_cut(std::size_t vertices, const std::vector<TestArc>& arcs, Vertex source,
                          Vertex sink) {
  std::int64_t least = FlowGraph::kUnbounded;
  for (std::uint64_t outside = 0; outside < (std::uint64_t{1} << vertices); ++outside) {
    if ((outside >> source & 1U) == 1 || (outside >> sink & 1U) == 0) continue;
    least = std::min(least, entering(arcs, outside));
  }
  return least;
}

struct RandomGraph {
  std::size_t vertices = 0;
  std::vector<TestArc> arcs;
};

RandomGraph random_graph(std::mt19937_64& random) {
  RandomGraph graph{2 + random() % 6, {}};
  for (std::size_t arc = random() % 20; arc > 0; --arc) {
    const auto from = static_cast<Vertex>(random() % graph.vertices);
    const auto to = static_cast<Vertex>(random() % graph.vertices);
    if (from != to) graph.arcs.push_back({from, to, static_cast<std::int64_t>(random() % 10)});
  }
  return graph;
}

TEST(MaxFlow, IsTheSmallestCutOnRandomGraphs) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    const RandomGraph drawn = random_graph(random);
    FlowGraph graph = graph_of(drawn.vertices, drawn.arcs);
    const auto sink = static_cast<Vertex>(drawn.vertices - 1);
    const std::int64_t expected = smallest_cut(drawn.vertices, drawn.arcs, 0, sink);
    ASSERT_EQ(graph.max_flow(0, sink, FlowGraph::kUnbounded), expected) << "round " << round;
    std::uint64_t outside = 0;
    for (Vertex v = 0; v < drawn.vertices; ++v) {
      if (graph.on_sink_side(v)) outside |= std::uint64_t{1} << v;
    }
    EXPECT_EQ(entering(drawn.arcs, outside), expected) << "round " << round;
    EXPECT_EQ(graph.max_flow(0, sink, 3), std::min<std::int64_t>(3, expected)) << "asked again";
  }
}

TEST(MaxFlow, GoesBackOnAFirstChoiceThatWasWrong) {
  // The shortest way 0-1-2-3 blocks both others, 0-1-5-3 and 0-4-2-3.
  FlowGraph graph =
      graph_of(6, {{0, 1, 1}, {1, 2, 1}, {2, 3, 1}, {0, 4, 1}, {4, 2, 1}, {1, 5, 1}, {5, 3, 1}});
  EXPECT_EQ(graph.max_flow(0, 3, 10), 2);
}

TEST(MaxFlow, StopsAtItsLimitWhereArcsAreUnbounded) {
  FlowGraph graph = graph_of(3, {{0, 1, FlowGraph::kUnbounded}, {1, 2, FlowGraph::kUnbounded}});
  const std::int64_t limit = std::int64_t{1} << 56U;
  EXPECT_EQ(graph.max_flow(0, 2, limit), limit);
}

TEST(Shortage, IsFoundExactlyWhereSomeSinkGetsLess) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  int found_some = 0;
  for (int round = 0; round < 2000; ++round) {
    const RandomGraph drawn = random_graph(random);
    std::vector<Vertex> sinks;
    std::int64_t least = FlowGraph::kUnbounded;
    for (Vertex v = 1; v < drawn.vertices; ++v) {
      if (random() % 3 == 0 && !sinks.empty()) continue;
      sinks.push_back(v);
      least = std::min(least, smallest_cut(drawn.vertices, drawn.arcs, 0, v));
    }
    const auto needed = static_cast<std::int64_t>(random() % 8);
    const auto found = find_shortage(graph_of(drawn.vertices, drawn.arcs), 0, sinks, needed);
    ASSERT_EQ(found.has_value(), least < needed) << "round " << round;
    if (!found) continue;
    ++found_some;
    std::uint64_t outside = 0;
    for (Vertex v = 0; v < drawn.vertices; ++v) {
      if (found->outside.contains(v)) outside |= std::uint64_t{1} << v;
    }
    EXPECT_FALSE(found->outside.contains(0));
    EXPECT_EQ(entering(drawn.arcs, outside), needed - found->missing) << "round " << round;
  }
  EXPECT_GT(found_some, 100);
}

}  // namespace
}  // namespace tutti::topo::forest
