#include "src/sim/task_graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ir/builder.hpp"

namespace tutti::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Rank 1 copies its input to scratch, sends that, and copies it to its output; rank 0 receives.
ir::Schedule diamond() {
  ir::Builder build({Collective::kBroadcast, 2, 1, false}, "diamond", 1);
  build.rank(0).recv(ir::out(0), 1);
  auto root = build.rank(1);
  const ir::ChunkSet scratch = root.scratch(ir::in(0));
  root.copy(ir::in(0), scratch).send(scratch, 0).copy(scratch, ir::out(0)).copy(ir::in(0), scratch);
  return std::move(build).finish();
}

std::vector<Task> complete(TaskGraph& graph, const Task& task) {
  std::vector<Task> ready;
  graph.complete(task, [&](const Task& next) { ready.push_back(next); });
  return ready;
}

TEST(TaskGraph, MakesAStepReadyOnceItsLastDependencyIsComplete) {
  auto graph = TaskGraph::create(diamond(), 1);
  ASSERT_TRUE(graph) << graph.error().what;
  EXPECT_EQ(graph->waits_for({1, 3, 0}), 2U) << "it writes what the send and the copy read";
  EXPECT_THAT(complete(*graph, {1, 0, 0}), ElementsAre(Task{1, 1, 0}, Task{1, 2, 0}));
  EXPECT_THAT(complete(*graph, {1, 1, 0}), IsEmpty());
  EXPECT_THAT(complete(*graph, {1, 2, 0}), ElementsAre(Task{1, 3, 0}));
}

TEST(TaskGraph, KeepsSlicesApart) {
  auto graph = TaskGraph::create(diamond(), 3);
  ASSERT_TRUE(graph) << graph.error().what;
  EXPECT_THAT(complete(*graph, {1, 0, 2}), ElementsAre(Task{1, 1, 2}, Task{1, 2, 2}));
  EXPECT_EQ(graph->waits_for({1, 1, 1}), 1U);
}

TEST(TaskGraph, NumbersTheTasksOfAllRanksAndSlices) {
  const auto graph = TaskGraph::create(diamond(), 3);
  ASSERT_TRUE(graph) << graph.error().what;
  ASSERT_EQ(graph->tasks(), 15U);
  std::vector<bool> seen(graph->tasks(), false);
  for (Rank rank = 0; rank < 2; ++rank)
    for (std::uint32_t slice = 0; slice < 3; ++slice)
      for (ir::StepId step = 0; step < graph->steps(rank); ++step)
        seen[graph->number({rank, step, slice})] = true;
  EXPECT_THAT(seen, testing::Each(true));
}

TEST(TaskGraph, RefusesMoreTasksThanFit) {
  const auto graph = TaskGraph::create(diamond(), TaskGraph::kMostTasks / 4);
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().code, Code::kUnavailable);
  EXPECT_THAT(graph.error().what, testing::HasSubstr("larger slices"));
}

}  // namespace
}  // namespace tutti::sim
