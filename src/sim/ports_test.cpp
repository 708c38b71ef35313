#include "src/sim/ports.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/result.hpp"
#include "src/ir/builder.hpp"

namespace tutti::sim {
namespace {

using ir::in;
using ir::out;
using testing::ElementsAre;
using testing::IsEmpty;

Result<Traffic> traffic_of(ir::Builder build) {
  const ir::Schedule schedule = std::move(build).finish();
  TUTTI_ASSIGN(const TaskGraph graph, TaskGraph::create(schedule, 1));
  UniformSwitch fabric({.ranks = schedule.request.ranks});
  return Traffic::plan(schedule, fabric, graph);
}

/// All of one turn. Channels, each of one message: 0 from rank 0 to 1, 1 from rank 0 to 1 on
/// another lane, 2 from rank 0 to 2, 3 from rank 3 to 2.
Result<Traffic> one_turn() {
  ir::Builder build({Collective::kAllGather, 4, 0, false}, "one turn", 1);
  build.rank(0).send(in(0), 1, 0).send(in(0), 1, 1).send(in(0), 2);
  build.rank(3).send(in(0), 2);
  build.rank(1).recv(out(0), 0, 0).recv(out(1), 0, 1);
  build.rank(2).recv(out(0), 0).recv(out(3), 3);
  return traffic_of(std::move(build));
}

class OfFourRanks : public testing::Test {
 protected:
  void SetUp() override {
    auto traffic = one_turn();
    ASSERT_TRUE(traffic) << traffic.error().what;
    traffic_ = *std::move(traffic);
  }
  void wait(Ports& ports, std::initializer_list<ChannelId> channels) const {
    for (const ChannelId channel : channels)
      ports.wait({.channel = channel, .pair = traffic_.channels()[channel].pair, .turn = 0});
  }
  void close(Ports& ports, ChannelId channel) const {
    ports.close(traffic_.channels()[channel].pair);
  }
  static std::vector<ChannelId> grant(Ports& ports) {
    std::vector<ChannelId> granted;
    ports.grant(granted);
    return granted;
  }

  Traffic traffic_;
};

using OnePort = OfFourRanks;
using TwoPorts = OfFourRanks;

TEST_F(OnePort, LetsARankSendToOneOtherAtATime) {
  Ports ports(4, 1, traffic_);
  wait(ports, {2});
  EXPECT_THAT(grant(ports), ElementsAre(2));
  wait(ports, {0});
  EXPECT_THAT(grant(ports), IsEmpty());
  close(ports, 2);
  EXPECT_THAT(grant(ports), ElementsAre(0));
}

TEST_F(OnePort, LetsARankReceiveFromOneOtherAtATimeAndTheLowestFirst) {
  Ports ports(4, 1, traffic_);
  wait(ports, {3, 2});
  EXPECT_THAT(grant(ports), ElementsAre(2));
  EXPECT_THAT(grant(ports), IsEmpty());
  close(ports, 2);
  EXPECT_THAT(grant(ports), ElementsAre(3));
}

TEST_F(OnePort, DoesNotHoldUpAMessageBehindOneThatCannotGo) {
  Ports ports(4, 1, traffic_);
  wait(ports, {3});
  EXPECT_THAT(grant(ports), ElementsAre(3));
  wait(ports, {2, 0});
  EXPECT_THAT(grant(ports), ElementsAre(0));
}

TEST_F(OnePort, IsSharedByTheLanesOfAPairUntilTheLastHasArrived) {
  Ports ports(4, 1, traffic_);
  wait(ports, {0, 1, 2});
  EXPECT_THAT(grant(ports), ElementsAre(0, 1));
  close(ports, 0);
  EXPECT_THAT(grant(ports), IsEmpty());
  close(ports, 1);
  EXPECT_THAT(grant(ports), ElementsAre(2));
}

TEST_F(TwoPorts, CarryTwoMessagesAtATime) {
  Ports ports(4, 2, traffic_);
  wait(ports, {0, 2, 3});
  EXPECT_THAT(grant(ports), ElementsAre(0, 2, 3));
}

TEST(Ports, KeepFreeForAMessageOfAnEarlierRound) {
  // Rank 2 gets a message from 1, which first needs one from 0, and one that rank 3 sends at once
  // but after three rounds of its own with rank 4.
  ir::Builder build({Collective::kAllGather, 5, 0, false}, "two turns", 1);
  build.rank(0).send(in(0), 1);
  build.rank(1).recv(out(0), 0).send(out(0), 2);
  build.rank(4).send(in(0), 3).recv(out(3), 3).send(in(0), 3);
  build.rank(3).recv(out(4), 4).send(in(0), 4).recv(out(1), 4).send(in(0), 2);
  build.rank(2).recv(out(0), 1).recv(out(3), 3);
  const auto traffic = traffic_of(std::move(build));
  ASSERT_TRUE(traffic) << traffic.error().what;
  const auto channel_to_2 = [&](Rank source) {
    for (const Message& message : traffic->messages())
      if (traffic->pair_of(message).destination == 2 && traffic->pair_of(message).source == source)
        return message.channel;
    return ~ChannelId{0};
  };
  const auto waiting = [&](ChannelId id) {
    const Channel& channel = traffic->channels()[id];
    return Ports::Waiting{id, channel.pair, traffic->messages()[channel.first].turn};
  };
  Ports ports(5, 2, *traffic);
  std::vector<ChannelId> granted;
  for (const Message& message : traffic->messages()) {  // all that come before, started and over
    if (traffic->pair_of(message).destination == 2) continue;
    ports.wait({message.channel, traffic->channels()[message.channel].pair, message.turn});
    ports.grant(granted);
    for (const ChannelId id : granted) ports.close(traffic->channels()[id].pair);
    granted.clear();
  }
  ports.wait(waiting(channel_to_2(3)));
  ports.grant(granted);
  EXPECT_THAT(granted, IsEmpty());
  ports.wait(waiting(channel_to_2(1)));
  ports.grant(granted);
  EXPECT_THAT(granted, ElementsAre(channel_to_2(1), channel_to_2(3)));
}

}  // namespace
}  // namespace tutti::sim
