#include "src/sim/traffic.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/result.hpp"
#include "src/ir/builder.hpp"
#include "src/ir/sample_schedules.hpp"

namespace tutti::sim {
namespace {

using ir::in;
using ir::out;
using testing::ElementsAre;
using testing::HasSubstr;

Result<Traffic> plan(const ir::Schedule& schedule, std::uint32_t slices) {
  TUTTI_ASSIGN(const TaskGraph graph, TaskGraph::create(schedule, slices));
  UniformSwitch fabric({.ranks = schedule.request.ranks, .latency = 3});
  return Traffic::plan(schedule, fabric, graph);
}

/// A chain: rank 0 sends two chunks to 1, which passes each on to 2.
ir::Schedule chain() {
  ir::Builder build({Collective::kBroadcast, 3, 0, false}, "chain", 2);
  build.rank(0).send(in(0), 1).send(in(1), 1).copy(in(0, 2), out(0, 2));
  build.rank(1).recv(out(0), 0).send(out(0), 2).recv(out(1), 0).send(out(1), 2);
  build.rank(2).recv(out(0), 1).recv(out(1), 1);
  return std::move(build).finish();
}

TEST(Traffic, PairsTheSendsOfALaneWithItsReceivesInOrder) {
  const auto traffic = plan(chain(), 1);
  ASSERT_TRUE(traffic) << traffic.error().what;
  ASSERT_EQ(traffic->messages().size(), 4U);
  const Message& second = traffic->messages()[1];
  const Task send = {0, 1, 0};
  const Task receive = {1, 2, 0};
  EXPECT_EQ(traffic->send_of(second), send);
  EXPECT_EQ(traffic->receive_of(second), receive);
  EXPECT_EQ(traffic->channel_of(second).latency, from_microseconds(3));
  EXPECT_THAT(traffic->channel_of(second).path, ElementsAre(0, 3))
      << "up of rank 0, down of rank 1";
}

TEST(Traffic, GivesAMessageTheTurnOfItsRound) {
  const auto traffic = plan(chain(), 1);
  ASSERT_TRUE(traffic) << traffic.error().what;
  std::vector<std::uint32_t> turns;
  for (const Message& message : traffic->messages()) turns.push_back(message.turn);
  EXPECT_THAT(turns, ElementsAre(0, 0, 1, 1));
}

TEST(Traffic, CountsAnOperationOfAGroupAsARound) {
  ir::Builder build({Collective::kAllReduce, 3, 0, false}, "leader", 1);
  const Rank pair[] = {0, 1};
  const ir::GroupId group = build.group(pair);
  for (const Rank rank : pair) build.rank(rank).group_reduce(in(0), out(0), group);
  build.rank(1).send(out(0), 2);
  build.rank(2).send(in(0), 1).recv(out(0), 1);
  build.rank(1).recv(build.rank(1).scratch(out(0)), 2);
  const ir::Schedule schedule = std::move(build).finish();
  const auto graph = TaskGraph::create(schedule, 1);
  UniformSwitch fabric({.ranks = 3, .aggregation = topo::Aggregation{}});
  const auto traffic = Traffic::plan(schedule, fabric, *graph);
  ASSERT_TRUE(traffic) << traffic.error().what;
  std::vector<std::pair<Rank, std::uint32_t>> turns;
  for (const Message& message : traffic->messages())
    turns.emplace_back(traffic->pair_of(message).source, message.turn);
  EXPECT_THAT(turns, ElementsAre(std::pair(1, 1U), std::pair(2, 0U)));
}

TEST(Traffic, SendsTheSlicesOfARoundBeforeThoseOfTheNext) {
  const ir::Schedule ring = ir::samples::ring_all_reduce(3, false);
  const auto traffic = plan(ring, 2);
  ASSERT_TRUE(traffic) << traffic.error().what;
  const Channel& channel = traffic->channels()[0];
  std::vector<std::pair<std::uint32_t, std::uint32_t>> order;  // turn and slice
  for (MessageId id = channel.first; id < channel.end; ++id)
    order.emplace_back(traffic->messages()[id].turn, traffic->messages()[id].slice);
  using Entry = std::pair<std::uint32_t, std::uint32_t>;
  EXPECT_THAT(order, ElementsAre(Entry{0, 0}, Entry{1, 1}, Entry{1, 0}, Entry{2, 1}, Entry{2, 0},
                                 Entry{3, 1}, Entry{3, 0}, Entry{4, 1}));
}

TEST(Traffic, FindsTheMessageOfASendAndOfAReceive) {
  const ir::Schedule schedule = ir::samples::ring_all_reduce(3, true);
  const auto graph = TaskGraph::create(schedule, 3);
  ASSERT_TRUE(graph) << graph.error().what;
  UniformSwitch fabric({.ranks = 3});
  const auto traffic = Traffic::plan(schedule, fabric, *graph);
  ASSERT_TRUE(traffic) << traffic.error().what;
  for (MessageId id = 0; id < traffic->messages().size(); ++id) {
    const Message& message = traffic->messages()[id];
    for (const Task& task : {traffic->send_of(message), traffic->receive_of(message)})
      EXPECT_EQ(traffic->message_of(graph->number(task.rank, task.step), task.slice), id);
  }
}

TEST(Traffic, NamesASendThatNobodyReceives) {
  ir::Schedule schedule = chain();
  schedule.programs[2].steps.pop_back();
  const auto traffic = plan(schedule, 1);
  ASSERT_FALSE(traffic);
  EXPECT_EQ(traffic.error().code, Code::kInvalidArgument);
  EXPECT_THAT(traffic.error().what, HasSubstr("rank 1 to rank 2"));
}

}  // namespace
}  // namespace tutti::sim
