#include "src/wire/message_engine.hpp"

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/clock.hpp"
#include "src/wire/scripted_link.hpp"

namespace tutti {
namespace {

using ::testing::HasSubstr;

const StreamId kIn{1, 1, 0, 0};
const StreamId kOut{1, 0, 1, 0};

class HostilePeer : public ::testing::Test {
 protected:
  void say(const Frame& frame) { script_->append(frame); }
  void say(FrameType type, std::uint64_t bytes, std::uint32_t payload, std::uint64_t offset = 0) {
    say(Frame{.type = type,
              .stream = kIn,
              .message = ++message_,
              .bytes = bytes,
              .offset = offset,
              .payload = payload});
  }
  // Lets the engine hear all of it; the text of its health, "" while it is well.
  std::string listen() {
    while (engine_.progress()) {
    }
    const Status health = engine_.health();
    return health ? "" : health.error().what;
  }

  std::shared_ptr<ScriptedLink::Script> script_ = std::make_shared<ScriptedLink::Script>();
  MessageEngine engine_{std::make_unique<ScriptedLink>(script_),
                        EngineOptions{.peer = 1, .link_name = "test"}};
  std::uint64_t message_ = 0;
};

TEST_F(HostilePeer, IsToldApartByTheFirstBytes) {
  script_->append(Blob(200, std::byte{'G'}));
  EXPECT_THAT(listen(), HasSubstr("where a frame should begin"));
  EXPECT_TRUE(script_->shut);
}

TEST_F(HostilePeer, CannotFillTheMemoryWithUnpostedMessages) {
  for (std::uint32_t i = 0; i < kStreamWindow; ++i) say(FrameType::kEager, 100, 100);
  EXPECT_EQ(listen(), "");
  say(FrameType::kEager, 100, 100);
  EXPECT_THAT(listen(), HasSubstr("more messages than the receiver gave credit for"));
}

TEST_F(HostilePeer, CannotSendDataThatWasNotCleared) {
  Blob buffer(200000);
  Transfer in;
  engine_.recv(kIn, {}, buffer, in);
  say(FrameType::kData, 200000, kChunkBytes);
  EXPECT_THAT(listen(), HasSubstr("was not cleared"));
  EXPECT_EQ(in.state, Transfer::State::kFailed);
}

TEST_F(HostilePeer, CannotWriteBeyondTheBuffer) {
  Blob buffer(200000);
  Transfer in;
  engine_.recv(kIn, {}, buffer, in);
  say(FrameType::kReadyToSend, 200000, 0);
  EXPECT_EQ(listen(), "");
  say(Frame{.type = FrameType::kData,
            .stream = kIn,
            .message = message_,
            .bytes = 400000,
            .offset = kChunkBytes,
            .payload = kChunkBytes});
  EXPECT_THAT(listen(), HasSubstr("was not cleared"));
}

TEST_F(HostilePeer, CannotSendMoreThanTheMessage) {
  Blob buffer(200000);
  Transfer in;
  engine_.recv(kIn, {}, buffer, in);
  say(FrameType::kReadyToSend, 200000, 0);
  for (int i = 0; i < 2; ++i)
    say(Frame{.type = FrameType::kData,
              .stream = kIn,
              .message = message_,
              .bytes = 200000,
              .payload = kChunkBytes});
  EXPECT_THAT(listen(), HasSubstr("was not cleared"));
}

// Where nobody may touch it: an access ends the test.
const std::span<std::byte> kOfAGpu(reinterpret_cast<std::byte*>(0x1000), 5000);
const StreamId kInForDevices{1, 1, 0, kDeviceLanes};
const StreamId kOutForDevices{1, 0, 1, kDeviceLanes};

TEST_F(HostilePeer, CannotSendUnannouncedDataForDevices) {
  say({.type = FrameType::kEager, .stream = kInForDevices, .bytes = 8, .payload = 8});
  EXPECT_THAT(listen(), HasSubstr("8 bytes that it has to announce"));
}

TEST_F(HostilePeer, CannotMakeThisSideWriteToAGpu) {
  Transfer in;
  in.device_memory = true;
  engine_.recv(kInForDevices, {}, kOfAGpu, in);
  say({.type = FrameType::kReadyToSend, .stream = kInForDevices, .message = 1, .bytes = 5000});
  EXPECT_EQ(listen(), "");
  EXPECT_EQ(in.state, Transfer::State::kFailed);
  EXPECT_THAT(in.error.what, HasSubstr("the 5000 bytes at 0x1000 that receive from rank 1 are a "
                                       "GPU's, and no NIC can write them"));
  say({.type = FrameType::kData,
       .stream = kInForDevices,
       .message = 1,
       .bytes = 5000,
       .payload = 5000});
  EXPECT_EQ(listen(), "");  // it goes nowhere
}

TEST_F(HostilePeer, CannotMakeThisSideReadFromAGpu) {
  Transfer out;
  out.device_memory = true;
  engine_.send(kOutForDevices, {}, kOfAGpu, out);
  EXPECT_EQ(out.state, Transfer::State::kPending);
  const std::uint64_t first = 2 * kMessageEpoch;  // what a sender calls its first message
  say({.type = FrameType::kClearToSend, .stream = kOutForDevices, .message = first, .bytes = 5000});
  EXPECT_EQ(listen(), "");
  EXPECT_EQ(out.state, Transfer::State::kFailed);
  EXPECT_THAT(out.error.what, HasSubstr("the 5000 bytes at 0x1000 that go to rank 1 are a GPU's"));
}

TEST_F(HostilePeer, MaySendWithoutAskingWhatWasClearedEarly) {
  Blob first(100000);
  Blob second(100000);
  Transfer one;
  Transfer two;
  engine_.recv(kIn, {}, first, one);
  engine_.recv(kIn, {}, second, two);
  const Frame data{
      .type = FrameType::kData, .stream = kIn, .message = 1, .bytes = 100000, .payload = 100000};
  say(FrameType::kReadyToSend, 100000, 0);  // tells the receiver the number
  EXPECT_EQ(listen(), "");
  say(data);
  EXPECT_EQ(listen(), "");
  EXPECT_EQ(one.state, Transfer::State::kDone);
  Frame next = data;
  next.message = 2;
  say(next);
  EXPECT_EQ(listen(), "");
  EXPECT_EQ(two.state, Transfer::State::kDone);
}

TEST_F(HostilePeer, CannotSendAnotherMessageThanTheOneClearedEarly) {
  Blob first(100000);
  Blob second(100000);
  Transfer one;
  Transfer two;
  engine_.recv(kIn, {}, first, one);
  engine_.recv(kIn, {}, second, two);
  say(FrameType::kReadyToSend, 100000, 0);
  EXPECT_EQ(listen(), "");
  say({.type = FrameType::kData, .stream = kIn, .message = 2, .bytes = 120000, .payload = 120000});
  EXPECT_THAT(listen(), HasSubstr("not the one that was cleared"));
}

TEST_F(HostilePeer, CannotBeginAStreamAnewWhileAMessageWaitsToBeCleared) {
  std::array<Blob, 3> buffers{Blob(100000), Blob(100000), Blob(100)};
  std::array<Transfer, 3> in;
  for (std::size_t i = 0; i < in.size(); ++i) engine_.recv(kIn, {}, buffers[i], in[i]);
  say(FrameType::kReadyToSend, 100000, 0);  // message 2 is cleared early
  EXPECT_EQ(listen(), "");
  say({.type = FrameType::kReadyToSend, .stream = kIn, .message = 3, .bytes = 100});
  say({.type = FrameType::kReadyToSend,
       .stream = kIn,
       .message = 2 + 4 * kMessageEpoch,
       .bytes = 100000});
  EXPECT_THAT(listen(), HasSubstr("message 17179869186 of a stream whose message 3 is under way"));
  for (const Transfer& each : in) {
    EXPECT_EQ(each.state, Transfer::State::kFailed);
    EXPECT_EQ(each.error.code, Code::kPeerFailed);
    EXPECT_EQ(each.error.peer, 1);
  }
}

TEST_F(HostilePeer, CannotBeginAStreamAnewByAnEagerMessageEither) {
  std::array<Blob, 3> buffers{Blob(100000), Blob(100000), Blob(100)};
  std::array<Transfer, 3> in;
  for (std::size_t i = 0; i < in.size(); ++i) engine_.recv(kIn, {}, buffers[i], in[i]);
  say(FrameType::kReadyToSend, 100000, 0);
  EXPECT_EQ(listen(), "");
  say({.type = FrameType::kEager, .stream = kIn, .message = 3, .bytes = 100, .payload = 100});
  say({.type = FrameType::kEager,
       .stream = kIn,
       .message = 2 + 4 * kMessageEpoch,
       .bytes = 100,
       .payload = 100});
  EXPECT_THAT(listen(), HasSubstr("whose message 3 is under way"));
}

TEST_F(HostilePeer, CannotGiveBackCreditsThatWereNotUsed) {
  say(Frame{.type = FrameType::kCredit, .stream = kOut, .bytes = 1, .offset = 1});
  EXPECT_THAT(listen(), HasSubstr("came back for a stream"));
}

TEST_F(HostilePeer, CannotClearWhatWasNotSent) {
  Blob data(100000);
  Transfer out;
  engine_.send(kOut, {}, data, out);
  say(Frame{
      .type = FrameType::kClearToSend, .stream = kOut, .message = 1ULL << 40, .bytes = 100000});
  EXPECT_THAT(listen(), HasSubstr("cleared out of order"));
}

TEST_F(HostilePeer, ThatGoesOnAfterItsGoodbyeHasLeftAllTheSame) {
  say(Frame{.type = FrameType::kGoodbye});
  EXPECT_THAT(listen(), HasSubstr("rank 1 has left"));
}

TEST(MessageEngine, SaysThatWhatWasSentWaitsForTheLink) {
  const auto script = std::make_shared<ScriptedLink::Script>();
  script->room = 30;
  MessageEngine engine(std::make_unique<ScriptedLink>(script), {.peer = 1, .link_name = "test"});
  EXPECT_FALSE(engine.wants_write());
  Blob data(100);
  Transfer out;
  engine.send(kOut, {}, data, out);
  EXPECT_EQ(out.state, Transfer::State::kDone);  // copied
  EXPECT_TRUE(engine.wants_write());
  engine.progress();
  EXPECT_TRUE(engine.wants_write());
  script->room = 1000;
  engine.progress();
  EXPECT_FALSE(engine.wants_write());
}

TEST(MessageEngine, SendsWhatMayWaitTogetherWithTheNextMessage) {
  const auto script = std::make_shared<ScriptedLink::Script>();
  MessageEngine engine(std::make_unique<ScriptedLink>(script), {.peer = 1, .link_name = "test"});
  Blob data(100);
  Transfer first;
  Transfer second;
  engine.send_with_next(kOut, {}, data, first);
  EXPECT_EQ(script->writes, 0);
  EXPECT_EQ(first.state, Transfer::State::kPending);
  engine.send(kOut, {}, data, second);
  EXPECT_EQ(script->writes, 1);
  EXPECT_EQ(first.state, Transfer::State::kDone);
  EXPECT_EQ(second.state, Transfer::State::kDone);
}

TEST(MessageEngine, SendsWhatMayWaitWhenNothingFollows) {
  const auto script = std::make_shared<ScriptedLink::Script>();
  MessageEngine engine(std::make_unique<ScriptedLink>(script), {.peer = 1, .link_name = "test"});
  Blob data(100);
  Transfer out;
  engine.send_with_next(kOut, {}, data, out);
  engine.progress();
  EXPECT_EQ(script->writes, 1);
  EXPECT_EQ(out.state, Transfer::State::kDone);
}

/// A peer with two links, of which the second carries data alone.
class StripedPeer : public ::testing::Test {
 protected:
  StripedPeer() {
    std::vector<std::unique_ptr<ByteLink>> links;
    for (const auto& script : scripts_) links.push_back(std::make_unique<ScriptedLink>(script));
    engine_ = std::make_unique<MessageEngine>(std::move(links),
                                              EngineOptions{.peer = 1, .link_name = "test"});
  }
  static Frame chunk(std::uint64_t offset) {
    return Frame{.type = FrameType::kData,
                 .stream = kIn,
                 .message = 7,
                 .bytes = 2 * kChunkBytes,
                 .offset = offset,
                 .payload = kChunkBytes};
  }
  void say(int link, const Frame& frame, std::byte fill = {}) {
    Blob& input = scripts_[link]->input;
    scripts_[link]->append(frame);
    std::fill(input.end() - frame.payload, input.end(), fill);
  }
  std::string listen() {
    for (int i = 0; i < 200; ++i) engine_->progress();  // it looks at idle links now and then
    const Status health = engine_->health();
    return health ? "" : health.error().what;
  }

  std::vector<std::shared_ptr<ScriptedLink::Script>> scripts_{
      std::make_shared<ScriptedLink::Script>(), std::make_shared<ScriptedLink::Script>()};
  std::unique_ptr<MessageEngine> engine_;
};

TEST_F(StripedPeer, MaySendTheChunksOfAMessageInAnyOrder) {
  Blob buffer(2 * kChunkBytes);
  Transfer in;
  engine_->recv(kIn, {}, buffer, in);
  say(0, {.type = FrameType::kReadyToSend, .stream = kIn, .message = 7, .bytes = buffer.size()});
  EXPECT_EQ(listen(), "");
  say(1, chunk(kChunkBytes), std::byte{2});
  EXPECT_EQ(listen(), "");
  EXPECT_EQ(in.state, Transfer::State::kPending);
  say(0, chunk(0), std::byte{1});
  EXPECT_EQ(listen(), "");
  EXPECT_EQ(in.state, Transfer::State::kDone);
  EXPECT_EQ(std::ranges::count(std::span(buffer).first(kChunkBytes), std::byte{1}), kChunkBytes);
  EXPECT_EQ(std::ranges::count(std::span(buffer).last(kChunkBytes), std::byte{2}), kChunkBytes);
}

TEST_F(StripedPeer, CannotBeginAStreamAnewWhileDataLands) {
  std::array<Blob, 3> buffers{Blob(100000), Blob(100000), Blob(100000)};
  auto in = std::make_unique<std::array<Transfer, 3>>();
  for (std::size_t i = 0; i < in->size(); ++i) engine_->recv(kIn, {}, buffers[i], (*in)[i]);
  say(0, {.type = FrameType::kReadyToSend, .stream = kIn, .message = 1, .bytes = 100000});
  EXPECT_EQ(listen(), "");
  Frame data{
      .type = FrameType::kData, .stream = kIn, .message = 3, .bytes = 100000, .payload = 100000};
  say(1, data);
  Blob& input = scripts_[1]->input;
  const Blob rest(input.end() - 50000, input.end());
  input.resize(input.size() - rest.size());
  EXPECT_EQ(listen(), "");
  say(0, {.type = FrameType::kReadyToSend,
          .stream = kIn,
          .message = 2 + 4 * kMessageEpoch,
          .bytes = 100000});
  EXPECT_THAT(listen(), HasSubstr("whose message 3 is under way"));
  scripts_[1]->append(rest);
  data.message = 1;
  say(0, data);
  EXPECT_THAT(listen(), HasSubstr("rank 1 failed"));
  for (const Transfer& each : *in) EXPECT_EQ(each.state, Transfer::State::kFailed);
  in.reset();  // nothing may refer to them any more
  Transfer late;
  engine_->recv(kIn, {}, buffers[0], late);
  EXPECT_EQ(late.state, Transfer::State::kFailed);
}

TEST_F(StripedPeer, MaySendNothingButDataOnTheOtherLinks) {
  say(1, {.type = FrameType::kReadyToSend, .stream = kIn, .message = 7, .bytes = 100000});
  EXPECT_THAT(listen(), HasSubstr("on a link for data"));
}

TEST_F(StripedPeer, ThatLosesOneLinkHasFailedAndIsNamed) {
  Blob buffer(2 * kChunkBytes);
  Transfer in;
  engine_->recv(kIn, {}, buffer, in);
  scripts_[1]->ended = true;
  EXPECT_THAT(listen(), HasSubstr("rank 1 failed"));
  EXPECT_EQ(in.state, Transfer::State::kFailed);
  EXPECT_EQ(in.error.peer, 1);
  EXPECT_TRUE(scripts_[0]->shut);
}

TEST_F(StripedPeer, HasLeftOnceItSaidSoOnEveryLink) {
  say(0, {.type = FrameType::kGoodbye});
  EXPECT_EQ(listen(), "");
  say(1, {.type = FrameType::kGoodbye});
  EXPECT_THAT(listen(), HasSubstr("rank 1 has left"));
}

TEST_F(StripedPeer, ThatLeavesOneLinkAndClosesItHasFailed) {
  say(0, {.type = FrameType::kGoodbye});
  EXPECT_EQ(listen(), "");
  scripts_[0]->deaf = true;
  Blob data(100000);
  Transfer out;
  engine_->send(kOut, {}, data, out);
  EXPECT_THAT(listen(), HasSubstr("rank 1 failed"));
  EXPECT_EQ(out.state, Transfer::State::kFailed);
  EXPECT_EQ(out.error.peer, 1);
}

TEST_F(StripedPeer, IsHeardToTheEndWhenALinkThatItLeftIsClosed) {
  Blob buffer(2 * kChunkBytes);
  Transfer in;
  engine_->recv(kIn, {}, buffer, in);
  say(0, {.type = FrameType::kReadyToSend, .stream = kIn, .message = 7, .bytes = buffer.size()});
  EXPECT_EQ(listen(), "");
  say(0, chunk(0));
  say(0, {.type = FrameType::kGoodbye});
  EXPECT_EQ(listen(), "");
  scripts_[0]->deaf = true;
  say(1, chunk(kChunkBytes));
  say(1, {.type = FrameType::kGoodbye});
  Transfer out;
  engine_->send(kOut, {}, buffer, out);
  EXPECT_THAT(listen(), HasSubstr("rank 1 has left"));
  EXPECT_EQ(in.state, Transfer::State::kDone);
}

TEST_F(StripedPeer, GetsTheLastOfEveryLinkBeforeOneIsClosed) {
  scripts_[0]->unfinished = 2;
  scripts_[1]->unfinished = 4;
  engine_.reset();
  EXPECT_EQ(scripts_[0]->unfinished, 0);
  EXPECT_EQ(scripts_[1]->unfinished, 0);
}

TEST_F(StripedPeer, DelaysAnEngineThatClosesByOneSecondHoweverManyLinksItHas) {
  for (const auto& script : scripts_) script->unfinished = 1 << 30;
  const TimePoint begin = Clock::now();
  engine_.reset();
  EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(1700));
}

TEST(Frames, SurviveTheRoundTrip) {
  const Frame frame{.type = FrameType::kData,
                    .reason = BreakReason::kNone,
                    .stream = {0x123456789abcdef0, 7, 65535, 65535},
                    .message = 1ULL << 63,
                    .tag = {99, {Collective::kReduce, DataType::kBfloat16, ReduceOp::kAvg, 3, 12}},
                    .bytes = 1ULL << 40,
                    .offset = 1ULL << 33,
                    .payload = kChunkBytes};
  const auto back = decode(encode(frame));
  ASSERT_TRUE(back) << back.error().what;
  EXPECT_EQ(encode(*back), encode(frame));
  EXPECT_EQ(back->stream, frame.stream);
  EXPECT_EQ(back->tag.call, frame.tag.call);
}

TEST(Frames, EveryFlippedBitIsNoticed) {
  const FrameHeader good =
      encode(Frame{.type = FrameType::kReadyToSend, .message = 5, .bytes = 70000});
  ASSERT_TRUE(decode(good));
  for (std::size_t bit = 0; bit < kHeaderBytes * 8; ++bit) {
    FrameHeader bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_FALSE(decode(bad)) << "bit " << bit;
  }
}

TEST_F(HostilePeer, IsSentBriefHeadersOfMessagesLikeTheOneBefore) {
  const Blob data(24);
  std::vector<std::size_t> written;
  std::array<Transfer, 5> out;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t before = script_->room;
    const std::size_t bytes = i == 3 ? 20 : 24;
    engine_.send(kOut, {.sequence = i, .call = {}}, std::span(data).first(bytes), out[i]);
    written.push_back(before - script_->room);
  }
  EXPECT_EQ(written, (std::vector<std::size_t>{88 + 24, 8 + 24, 8 + 24, 88 + 20, 88 + 24}));
}

constexpr Frame kEagerFrame{
    .type = FrameType::kEager,
    .stream = {1, 2, 3, 4},
    .message = 0xffffffff,
    .tag = {99, {Collective::kReduce, DataType::kBfloat16, ReduceOp::kAvg, 3, 12}},
    .bytes = 24,
    .payload = 24};

Frame after(Frame frame, std::uint64_t sequences) {
  ++frame.message;
  frame.tag.sequence += sequences;
  return frame;
}

TEST(Frames, AMessageLikeTheOneBeforeItHasABriefHeader) {
  for (const std::uint64_t sequences : {0, 1}) {
    const Frame next = after(kEagerFrame, sequences);
    const auto brief = encode_brief(next, kEagerFrame);
    ASSERT_TRUE(brief);
    ASSERT_TRUE(header_length(*brief));
    EXPECT_EQ(*header_length(*brief), kBriefHeaderBytes);
    Frame frame = kEagerFrame;
    ASSERT_TRUE(decode_brief(*brief, frame));
    EXPECT_EQ(encode(frame), encode(next));
    EXPECT_FALSE(decode_brief(*brief, frame)) << "twice";
  }
}

TEST(Frames, OtherMessagesHaveALongHeader) {
  const auto differs = [](auto change) {
    Frame next = after(kEagerFrame, 1);
    change(next);
    return !encode_brief(next, kEagerFrame);
  };
  EXPECT_TRUE(differs([](Frame& next) { next.type = FrameType::kReadyToSend; }));
  EXPECT_TRUE(differs([](Frame& next) { next.stream.lane = 5; }));
  EXPECT_TRUE(differs([](Frame& next) { ++next.message; }));
  EXPECT_TRUE(differs([](Frame& next) { ++next.tag.sequence; }));
  EXPECT_TRUE(differs([](Frame& next) { next.tag.sequence -= 2; }));
  EXPECT_TRUE(differs([](Frame& next) { next.tag.call.root = 4; }));
  EXPECT_TRUE(differs([](Frame& next) { next.bytes = next.payload = 23; }));
  EXPECT_FALSE(encode_brief(after(Frame{}, 1), Frame{})) << "nothing was before it";
}

TEST(Frames, EveryFlippedBitOfABriefHeaderIsNoticed) {
  const BriefHeader good = *encode_brief(after(kEagerFrame, 1), kEagerFrame);
  for (std::size_t bit = 0; bit < kBriefHeaderBytes * 8; ++bit) {
    BriefHeader bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    Frame frame = kEagerFrame;
    EXPECT_FALSE(header_length(bad) && decode_brief(bad, frame)) << "bit " << bit;
  }
}

TEST(Frames, SizesThatDoNotFitTheTypeAreRefused) {
  for (const Frame& frame :
       {Frame{.type = FrameType::kEager, .bytes = kEagerLimit + 1, .payload = kEagerLimit + 1},
        Frame{.type = FrameType::kEager, .bytes = 10, .payload = 11},
        Frame{.type = FrameType::kData, .bytes = 10, .offset = 10, .payload = 1},
        Frame{.type = FrameType::kData, .bytes = 10, .offset = 5, .payload = 6},
        Frame{.type = FrameType::kData, .bytes = 1ULL << 40, .payload = kChunkBytes + 1},
        Frame{.type = FrameType::kData, .bytes = 1ULL << 40, .payload = kChunkBytes - 1},
        Frame{.type = FrameType::kData, .bytes = 1ULL << 40, .offset = 1, .payload = kChunkBytes},
        Frame{.type = FrameType::kReadyToSend, .bytes = 10, .payload = 10},
        Frame{.type = FrameType::kCredit, .offset = 0},
        Frame{.type = FrameType::kBreak, .reason = BreakReason::kNone},
        Frame{.type = FrameType::kGoodbye, .payload = 1}})
    EXPECT_FALSE(decode(encode(frame)));
}

}  // namespace
}  // namespace tutti
