#include "src/bootstrap/standstill.hpp"

#include <gmock/gmock.h>

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

using Calls = std::vector<std::optional<WaitingCall>>;

std::optional<Standstill> find(const Calls& calls) {
  std::vector<const WaitingCall*> pointers;
  for (const auto& call : calls) pointers.push_back(call ? &*call : nullptr);
  return find_standstill(pointers);
}

/// In the last of these collectives, which begin with number `first`.
WaitingCall in_collective(std::vector<std::string> calls, std::uint64_t first = 1,
                          Rank waits_for = kNoRank) {
  WaitingCall call;
  call.waits_for = waits_for;
  call.collectives = first + calls.size() - 1;
  call.in_collective = true;
  call.recent = std::move(calls);
  return call;
}

/// In messages, behind so many collectives.
WaitingCall in_messages(std::uint64_t collectives, std::vector<AwaitedMessage> awaited,
                        std::vector<BegunMessages> begun) {
  WaitingCall call;
  call.collectives = collectives;
  call.awaited = std::move(awaited);
  for (AwaitedMessage& message : call.awaited) message.text = message.sends ? "send" : "recv";
  call.begun = std::move(begun);
  return call;
}

TEST(Standstill, IsNotWhereSomebodyMayStillCome) {
  // Both wait for rank 2, which says nothing: it computes.
  EXPECT_FALSE(find(Calls{in_collective({"sum"}, 1, 2), in_collective({"sum"}, 1, 2), {}}));
  EXPECT_FALSE(find(Calls{in_messages(0, {{1, false, 0, ""}}, {{1, 0, 1}}), {}}));
  EXPECT_FALSE(find(Calls{{}, {}}));
  // Rank 1 has yet to begin the broadcast, whose root is rank 2, and waits for a message that rank
  // 0 sends after it: what rank 0 waits for is rank 2.
  EXPECT_FALSE(find(Calls{
      in_collective({"broadcast"}, 5, 2), in_messages(4, {{0, false, 0, ""}}, {{0, 0, 1}}), {}}));
}

TEST(Standstill, IsNotWhereAllAreInOneCall) {
  // Their network is slow, whatever they wait for.
  EXPECT_FALSE(find(Calls{in_collective({"sum"}, 1, 1), in_collective({"sum"}, 1, 0)}));
  EXPECT_FALSE(find(Calls{in_messages(0, {{1, true, 0, ""}}, {{1, 1, 0}}),
                          in_messages(0, {{0, false, 0, ""}}, {{0, 0, 1}})}));
}

TEST(Standstill, IsNotInAChain) {
  // 0 waits for 1's next collective, and 1 for a message that 2 has begun to send.
  EXPECT_FALSE(
      find(Calls{in_collective({"sum"}, 5, 1), in_messages(4, {{2, false, 7, ""}}, {{2, 0, 8}}),
                 in_messages(5, {{0, true, 0, ""}}, {{0, 1, 0}, {1, 8, 0}})}));
  // And 1 for what 0 has sent it in the collective that it is through with.
  EXPECT_FALSE(find(Calls{in_collective({"sum", "max"}, 5, 1), in_collective({"sum"}, 5, 0)}));
}

TEST(Standstill, IsWhereOneIsInMessagesAndTheOthersInACollective) {
  // 0 waits in the collective for 1, which waits there for 3, and 3 for 2, which is not in it.
  const auto found =
      find(Calls{in_collective({"sum"}, 5, 1), in_collective({"sum"}, 5, 3),
                 in_messages(4, {{0, false, 0, ""}}, {{0, 0, 1}}), in_collective({"sum"}, 5, 2)});
  ASSERT_TRUE(found);
  EXPECT_THAT(found->ranks, ElementsAre(2, 0, 1, 3));
  EXPECT_EQ(found->error.code, Code::kInvalidUsage);
  EXPECT_EQ(found->error.peer, 2);
  EXPECT_THAT(found->error.what, HasSubstr("rank 2 waits in recv (after 4 collectives) for rank 0, "
                                           "rank 0 waits in sum (its collective 5) for rank 1"));
}

TEST(Standstill, IsFoundBehindRanksThatOnlySeemToWaitForEachOther) {
  // 0 and 1 are in one collective; 2 and 3 receive from each other.
  const auto found = find(Calls{in_collective({"sum"}, 5, 1), in_collective({"sum"}, 5, 0),
                                in_messages(4, {{3, false, 0, ""}}, {{3, 0, 1}}),
                                in_messages(4, {{2, false, 0, ""}}, {{2, 0, 1}})});
  ASSERT_TRUE(found);
  EXPECT_THAT(found->ranks, UnorderedElementsAre(2, 3));
}

TEST(Standstill, IsWhereTwoReceiveFromEachOther) {
  const auto found = find(Calls{in_messages(3, {{1, false, 2, ""}}, {{1, 9, 3}}),
                                in_messages(3, {{0, false, 9, ""}}, {{0, 2, 10}})});
  ASSERT_TRUE(found);
  EXPECT_THAT(found->ranks, ElementsAre(0, 1));
}

TEST(Standstill, OfMessagesThatAPeerHasBegunIsNone) {
  EXPECT_FALSE(find(Calls{in_messages(3, {{1, false, 2, ""}}, {{1, 9, 3}}),
                          in_messages(3, {{0, false, 9, ""}}, {{0, 3, 10}})}));
  EXPECT_FALSE(find(Calls{in_messages(3, {{1, true, 2, ""}}, {{1, 3, 0}}),
                          in_messages(3, {{0, true, 9, ""}}, {{0, 10, 3}})}));
}

TEST(Standstill, IsNotClaimedOfARankThatDoesNotTellItsMessages) {
  Calls calls{in_messages(3, {{1, false, 2, ""}}, {{1, 9, 3}}),
              in_messages(3, {{0, false, 9, ""}}, {{0, 2, 10}})};
  calls[1]->begun.clear();
  calls[1]->tells_begun = false;
  EXPECT_FALSE(find(calls));
}

TEST(Standstill, MayTakeManyRanks) {
  Calls calls;
  constexpr Rank kRanks = 100;
  for (Rank rank = 0; rank < kRanks; ++rank)
    calls.push_back(
        in_messages(0, {{(rank + 1) % kRanks, false, 0, ""}},
                    {{(rank + 1) % kRanks, 0, 1}, {(rank + kRanks - 1) % kRanks, 0, 0}}));
  const auto found = find(calls);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->ranks.size(), 100U);
  EXPECT_THAT(found->error.what, HasSubstr("over 100 ranks"));
  calls[50].reset();
  EXPECT_FALSE(find(calls));
}

TEST(Standstill, IsWhereOneNumberMeansDifferentCalls) {
  const auto found = find(Calls{in_collective({"a", "sum"}, 8), in_collective({"a", "max"}, 8),
                                in_collective({"a", "sum"}, 8)});
  ASSERT_TRUE(found);
  EXPECT_THAT(found->ranks, ElementsAre(0, 1));
  EXPECT_EQ(found->error.peer, 1);
  EXPECT_THAT(found->error.what,
              HasSubstr("number 9 of this communicator: rank 0 calls sum, rank 1 "
                        "calls max"));
}

TEST(Standstill, IsFoundWhereOneHasGoneOnAfterAnotherCall) {
  // Rank 1 got through its call 9, which was another one, and waits in the next.
  const auto found =
      find(Calls{in_collective({"a", "sum"}, 8), in_collective({"a", "max", "sum"}, 8)});
  ASSERT_TRUE(found);
  EXPECT_THAT(found->error.what, HasSubstr("number 9"));
}

TEST(WaitingCall, TravelsWhole) {
  WaitingCall call = in_messages(7, {{1, false, 2, ""}, {0, true, 3, ""}}, {{1, 9, 3}});
  call.recent = {"x", "y"};
  const auto got = decode_waiting_call(encode(call), 2);
  ASSERT_TRUE(got);
  EXPECT_EQ(encode(*got), encode(call));
  EXPECT_EQ(got->awaited.at(0).text, "recv");
  EXPECT_EQ(got->collectives, 7U);
  EXPECT_FALSE(got->in_collective);
  EXPECT_EQ(got->recent, call.recent);
  ASSERT_EQ(got->awaited.size(), 2U);
  EXPECT_TRUE(got->awaited[1].sends);
  EXPECT_EQ(got->begun.at(0).receives, 3U);
}

TEST(WaitingCall, OfARankThatIsNotThereIsRefused) {
  const WaitingCall call = in_messages(7, {{3, false, 2, ""}}, {});
  EXPECT_TRUE(decode_waiting_call(encode(call), 4));
  EXPECT_FALSE(decode_waiting_call(encode(call), 3));
  const Blob whole = encode(call);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_FALSE(decode_waiting_call(std::span(whole).first(bytes), 4)) << bytes;
}

TEST(WaitingCall, ControlsNoTerminal) {
  WaitingCall call = in_collective({"a\x1b[31m"});
  const auto got = decode_waiting_call(encode(call), 1);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->recent.at(0), "a?[31m");
}

}  // namespace
}  // namespace tutti
