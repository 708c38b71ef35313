#include "src/lower/messages.hpp"

#include <gtest/gtest.h>

#include "src/ir/builder.hpp"

namespace tutti::lower {
namespace {

using ir::in;
using ir::out;

TEST(MessagesOf, PairTheKthSendOfALaneWithItsKthReceive) {
  ir::Builder build({Collective::kAllGather, 2}, "made up", 2);
  build.rank(0).send(in(0), 1).send(in(1), 1, 1).send(in(1), 1);
  build.rank(1).recv(out(0), 0).recv(out(1), 0).recv(out(3), 0, 1);
  const Messages messages = messages_of(std::move(build).finish());
  ASSERT_EQ(messages.size(), 3U);
  EXPECT_EQ(messages.at({0, 1, 0, 0}).destination, out(0));
  EXPECT_EQ(messages.at({0, 1, 0, 1}).source, in(1));
  EXPECT_EQ(messages.at({0, 1, 0, 1}).destination, out(1));
  EXPECT_EQ(messages.at({0, 1, 1, 0}).destination, out(3));
}

TEST(MessagesOf, TellInputFromWhatInPlaceHasBecomeOutput) {
  for (const bool in_place : {false, true}) {
    ir::Builder build({Collective::kAllReduce, 2, 0, in_place, {}}, "made up", 1);
    auto me = build.rank(0);
    me.send(in(0), 1).recv(out(0), 1).send(in(0), 1);
    build.rank(1).recv(out(0), 0).send(in(0), 0).recv(out(0), 0);
    const Messages messages = messages_of(std::move(build).finish());
    EXPECT_TRUE(messages.at({0, 1, 0, 0}).from_input);
    EXPECT_EQ(messages.at({0, 1, 0, 1}).from_input, !in_place);
  }
}

}  // namespace
}  // namespace tutti::lower
