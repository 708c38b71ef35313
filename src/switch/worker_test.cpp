#include "src/switch/worker.hpp"

#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::in_network {
namespace {

constexpr std::size_t kChunkValues = kChunkBytes / 4;

using testing::HasSubstr;
using namespace std::chrono_literals;

constexpr TimePoint kStart{1h};

WorkerOptions two_slots() {
  return {.session = 7, .worker = 1, .member = {.number = 1, .of = 2}, .slots = 2, .silence = 1s};
}

/// One worker of two, whose peer has the same values, and whose switch the test is.
struct WorkerUnderTest {
  explicit WorkerUnderTest(std::size_t count, const WorkerOptions& options = two_slots())
      : input(count), output(count), worker(options) {
    std::iota(input.begin(), input.end(), 0);
    const Status begun = worker.begin(operation(), now);
    EXPECT_TRUE(begun) << begun.error().what;
  }
  Operation operation() {
    return {.type = DataType::kInt32,
            .count = input.size(),
            .input = std::as_bytes(std::span(input)).data(),
            .output = std::as_writable_bytes(std::span(output)).data()};
  }
  /// The chunks that the worker sends now.
  std::vector<std::uint64_t> sends() {
    std::vector<std::uint64_t> chunks;
    while (const auto packet = worker.next_packet(now, room)) {
      last = *packet;
      chunks.push_back(packet->chunk);
    }
    return chunks;
  }
  void answer(std::uint64_t chunk) {
    const OperationChunks chunks(operation(), {.number = 1, .of = 2}, 2, 0);
    const OperationChunks::Piece piece = chunks.piece(chunk);
    std::vector<std::int32_t> sums(piece.count);
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] = 2 * static_cast<std::int32_t>(chunk * kChunkValues + i);
    Packet result = answer_to(chunk, PacketKind::kResult);
    result.count = piece.count;
    result.values = std::as_bytes(std::span(sums));
    worker.received(result, now);
  }
  [[nodiscard]] Packet answer_to(std::uint64_t chunk, PacketKind kind) const {
    return {
        .kind = kind, .lanes = Lanes::kInt32Sum, .session = 7, .chunk = chunk, .call = last.call};
  }
  std::vector<std::int32_t> input, output;
  TimePoint now = kStart;
  PacketBytes room{};
  Packet last;
  Worker worker;
};

using Chunks = std::vector<std::uint64_t>;

TEST(Worker, SendsAChunkWhenTheResultThatFreesItsSlotIsThere) {
  WorkerUnderTest test(4 * kChunkValues + 1);
  EXPECT_EQ(test.sends(), (Chunks{0, 1}));
  test.answer(1);
  EXPECT_EQ(test.sends(), Chunks{3});
  test.answer(1);
  EXPECT_EQ(test.sends(), Chunks{}) << "a copy";
  test.answer(3);
  EXPECT_EQ(test.sends(), Chunks{}) << "the other slot waits";
  test.answer(0);
  EXPECT_EQ(test.sends(), Chunks{2});
  test.answer(2);
  EXPECT_EQ(test.sends(), Chunks{4});
  EXPECT_EQ(test.last.count, 1);
  test.answer(4);
  EXPECT_EQ(test.worker.progress(), Progress::kDone);
  for (std::size_t i = 0; i < test.output.size(); ++i) ASSERT_EQ(test.output[i], 2 * test.input[i]);
}

TEST(Worker, GoesOnCountingChunksInTheNextOperation) {
  WorkerUnderTest test(1);
  EXPECT_EQ(test.sends(), Chunks{0});
  const std::uint32_t call = test.last.call;
  EXPECT_FALSE(test.worker.begin(test.operation(), test.now)) << "one is running";
  test.answer(0);
  ASSERT_EQ(test.worker.progress(), Progress::kDone);
  ASSERT_TRUE(test.worker.begin(test.operation(), test.now));
  EXPECT_EQ(test.sends(), Chunks{1});
  EXPECT_NE(test.last.call, call) << "so that a worker in another operation is found";
}

TEST(Worker, RepeatsWhatHasNoResultInTimeLessAndLessOften) {
  WorkerUnderTest test(1);
  test.sends();
  std::vector<Nanos> gaps;
  for (int i = 0; i < 6; ++i) {
    const TimePoint when = *test.worker.next_deadline();
    gaps.push_back(when - test.now);
    test.now = when - 1ns;
    EXPECT_EQ(test.sends(), Chunks{});
    test.now = when;
    EXPECT_EQ(test.sends(), Chunks{0});
    test.worker.received(test.answer_to(0, PacketKind::kWaiting), test.now);
  }
  EXPECT_EQ(gaps, (std::vector<Nanos>{10ms, 20ms, 40ms, 80ms, 100ms, 100ms}));
}

TEST(Worker, WaitsForOtherWorkersWithoutEndAndNamesThem) {
  WorkerUnderTest test(1);
  test.sends();
  Packet waiting = test.answer_to(0, PacketKind::kWaiting);
  waiting.workers = 0b101;
  for (int i = 0; i < 1000; ++i) {
    test.now = *test.worker.next_deadline();
    test.sends();
    test.worker.received(waiting, test.now);
  }
  EXPECT_GT(test.now, kStart + 60s);
  EXPECT_EQ(test.worker.progress(), Progress::kRunning);
  EXPECT_EQ(test.worker.missing().workers, 0b101U);
  EXPECT_EQ(test.worker.missing().level, 0U);
}

/// Nobody answers; until when does it go on?
Nanos patience_of(WorkerUnderTest& test, bool hinted) {
  while (test.worker.progress() == Progress::kRunning) {
    test.sends();
    if (hinted) test.worker.hinted_unknown();
    if (const auto deadline = test.worker.next_deadline()) test.now = *deadline;
  }
  return test.now - kStart;
}

TEST(Worker, GivesASilentSwitchUp) {
  WorkerUnderTest test(1);
  EXPECT_EQ(patience_of(test, false), 1s);
  EXPECT_EQ(test.worker.error().code, Code::kTimeout);
  EXPECT_THAT(test.worker.error().what, HasSubstr("silent for 1000 ms"));
  EXPECT_FALSE(test.worker.begin(test.operation(), test.now)) << "for good";
}

TEST(Worker, GivesASwitchUpEarlierThatSeemsToHaveRestarted) {
  WorkerUnderTest test(1);
  EXPECT_EQ(patience_of(test, true), 250ms);
  EXPECT_EQ(test.worker.error().code, Code::kPeerFailed);
  EXPECT_THAT(test.worker.error().what, HasSubstr("does not know the session"));
}

TEST(Worker, DoesNotTakeItsOwnAbsenceForSilence) {
  WorkerUnderTest test(1);
  test.sends();
  test.now += 1h;
  EXPECT_EQ(test.sends(), Chunks{0});
  EXPECT_EQ(test.worker.progress(), Progress::kRunning);
  test.answer(0);
  EXPECT_EQ(test.worker.progress(), Progress::kDone);
}

TEST(Worker, RepeatsAChunkThatOthersHaveOvertaken) {
  WorkerOptions options = two_slots();
  options.slots = 8;
  WorkerUnderTest test(8 * kChunkValues, options);
  EXPECT_EQ(test.sends().size(), 8U);
  test.now += 100us;  // far from any timeout
  for (const std::uint64_t chunk : {1, 2}) test.answer(chunk);
  EXPECT_EQ(test.sends(), Chunks{});
  test.answer(3);
  EXPECT_EQ(test.sends(), Chunks{0});
  test.answer(4);
  EXPECT_EQ(test.sends(), Chunks{}) << "once in a round trip";
}

TEST(Worker, FailsIfTheSwitchRefuses) {
  WorkerUnderTest test(1);
  test.sends();
  Packet refusal = test.answer_to(5, PacketKind::kRefusal);
  refusal.reason = Refusal::kLanesDiffer;
  test.worker.received(refusal, test.now);
  EXPECT_EQ(test.worker.progress(), Progress::kRunning) << "of another chunk";
  refusal.chunk = 0;
  test.worker.received(refusal, test.now);
  EXPECT_EQ(test.worker.progress(), Progress::kFailed);
  EXPECT_THAT(test.worker.error().what, HasSubstr("different types or operators"));
}

TEST(Worker, FailsIfAResultIsNotWhatItAskedFor) {
  const auto error_after = [](auto change) {
    WorkerUnderTest test(3);
    test.sends();
    const std::vector<std::byte> values(16);
    Packet result = test.answer_to(0, PacketKind::kResult);
    result.count = 3;
    result.values = std::span(values).first(12);
    change(result, values);
    test.worker.received(result, test.now);
    EXPECT_EQ(test.worker.progress(), Progress::kFailed);
    return test.worker.error().what;
  };
  using Values = const std::vector<std::byte>&;
  EXPECT_THAT(error_after([](Packet& p, Values) { p.lanes = Lanes::kInt32Max; }),
              HasSubstr("int32 max"));
  EXPECT_THAT(error_after([](Packet& p, Values all) { p.count = 4, p.values = all; }),
              HasSubstr("4 values"));
  EXPECT_THAT(error_after([](Packet& p, Values) { ++p.call; }), HasSubstr("different calls"));
  EXPECT_THAT(error_after([](Packet& p, Values) { p.values = {}; }), HasSubstr("no values"));
}

TEST(Worker, IgnoresResultsThatLeaveOutWhatItWants) {
  WorkerUnderTest test(3);
  test.sends();
  Packet brief = test.answer_to(0, PacketKind::kResult);
  brief.count = 3;
  brief.left_out = true;
  test.worker.received(brief, test.now);
  EXPECT_EQ(test.worker.progress(), Progress::kRunning);
}

TEST(Worker, NeverWritesBeyondItsOutput) {
  WorkerUnderTest test(1);
  test.output.assign(2, 77);
  Operation operation = test.operation();
  Worker worker(two_slots());
  ASSERT_TRUE(worker.begin(operation, test.now));
  const auto packet = worker.next_packet(test.now, test.room);
  const std::int32_t sum = 5;
  Packet result = test.answer_to(0, PacketKind::kResult);
  result.call = packet->call;
  result.count = 1;
  result.values = std::as_bytes(std::span(&sum, 1));
  worker.received(result, test.now);
  EXPECT_EQ(test.output, (std::vector<std::int32_t>{5, 77}));
}

TEST(Worker, SaysWhatItDoesNotDo) {
  Worker worker(two_slots());
  const auto error_of_begin = [&](const Operation& operation) {
    const Status begun = worker.begin(operation, kStart);
    EXPECT_FALSE(begun);
    return begun ? "" : begun.error().what;
  };
  EXPECT_THAT(error_of_begin({.collective = Collective::kAllToAll}), HasSubstr("all_to_all"));
  EXPECT_THAT(error_of_begin({.type = DataType::kFloat64}), HasSubstr("sum of double"));
  EXPECT_THAT(error_of_begin({.type = DataType::kFloat32, .op = ReduceOp::kMax}),
              HasSubstr("max of float"));
  EXPECT_EQ(worker.progress(), Progress::kIdle);
}

TEST(Worker, IsDoneAtOnceWithNothing) {
  WorkerUnderTest test(0);
  EXPECT_EQ(test.worker.progress(), Progress::kDone);
  EXPECT_EQ(test.sends(), Chunks{});
  EXPECT_FALSE(test.worker.next_deadline());
}

TEST(RoundTrips, FollowWhatIsMeasured) {
  RoundTrips trips({.first = 10ms, .least = 1ms, .greatest = 100ms});
  EXPECT_EQ(trips.timeout(), 10ms);
  for (int i = 0; i < 100; ++i) trips.sample(4ms);
  EXPECT_GE(trips.timeout(), 4ms);
  EXPECT_LE(trips.timeout(), 5ms);
  trips.sample(8ms);
  EXPECT_GT(trips.timeout(), 7ms) << "less regular";
  for (int i = 0; i < 100; ++i) trips.sample(10us);
  EXPECT_EQ(trips.timeout(), 1ms) << "not less";
  EXPECT_EQ(trips.timeout(1), 2ms);
  EXPECT_EQ(trips.timeout(2), 4ms);
  EXPECT_EQ(trips.timeout(15), 100ms) << "not more";
  for (int i = 0; i < 20; ++i) trips.double_timeout();
  EXPECT_EQ(trips.timeout(), 100ms);
  trips.sample(10us);
  EXPECT_EQ(trips.timeout(), 1ms);
}

TEST(Resender, TakesNoRoundTripsOfChunksThatWereSentAgain) {
  Resender resender(2, {.first = 10ms, .least = 1ms, .greatest = 100ms});
  resender.sent(0, kStart);
  resender.sent_again(0, kStart + 10ms);
  EXPECT_EQ(*resender.deadline(), kStart + 30ms) << "twice as long";
  resender.answered(0, kStart + 11ms, true);
  EXPECT_EQ(resender.timeout(), 10ms) << "that may have been the answer to either";
  resender.sent(0, kStart + 11ms);
  resender.answered(0, kStart + 12ms, true);
  EXPECT_LT(resender.timeout(), 4ms);
}

TEST(Resender, WaitsLongerIfRoundTripsHaveBecomeLongerThanTheTimeout) {
  Resender resender(4, {.first = 10ms, .least = 1ms, .greatest = 100ms});
  TimePoint now = kStart;
  int sendings = 0;
  for (int chunk = 0; chunk < 60; ++chunk) {  // all of them take 30 ms
    const TimePoint result = now + 30ms;
    resender.sent(0, now);
    for (sendings = 1; *resender.deadline() < result; ++sendings) {
      now = *resender.deadline();
      EXPECT_EQ(resender.due(now), 0U);
      resender.sent_again(0, now);
    }
    now = result;
    resender.answered(0, now, true);
  }
  EXPECT_EQ(sendings, 1);
  EXPECT_GE(resender.timeout(), 30ms);
}

TEST(Resender, DoesNotWaitLongerBecauseOthersAreLate) {
  Resender resender(1, {.first = 10ms, .least = 1ms, .greatest = 100ms});
  TimePoint now = kStart;
  const auto take = [&](Nanos time, bool was_last) {
    resender.sent(0, now);
    resender.answered(0, now += time, was_last);
  };
  for (int i = 0; i < 50; ++i) take(5ms, false);
  EXPECT_EQ(resender.timeout(), 15ms) << "the first bound is all that is known";
  for (int i = 0; i < 50; ++i) take(1ms, true);
  const Nanos timeout = resender.timeout();
  EXPECT_LT(timeout, 2ms);
  for (int i = 0; i < 50; ++i) take(9ms, false);
  EXPECT_EQ(resender.timeout(), timeout);
  for (int i = 0; i < 50; ++i) take(9ms, true);
  EXPECT_GE(resender.timeout(), 9ms);
}

TEST(Resender, NamesTheChunkWhoseTimeIsOverFirst) {
  Resender resender(3, {.first = 10ms, .least = 1ms, .greatest = 100ms});
  resender.sent(2, kStart);
  resender.sent_again(2, kStart + 10ms);  // until 30 ms
  resender.sent(0, kStart + 12ms);        // until 22 ms
  resender.sent(1, kStart + 25ms);        // until 35 ms
  EXPECT_EQ(*resender.deadline(), kStart + 22ms);
  EXPECT_EQ(resender.due(kStart + 22ms), 0U);
  resender.sent_again(0, kStart + 22ms);  // until 42 ms
  EXPECT_EQ(*resender.deadline(), kStart + 30ms);
  EXPECT_EQ(resender.due(kStart + 50ms), 2U);
  resender.answered(2, kStart + 31ms, true);
  EXPECT_EQ(resender.due(kStart + 50ms), 1U);
  resender.answered(1, kStart + 31ms, true);
  EXPECT_EQ(resender.due(kStart + 100ms), 0U);
  resender.answered(0, kStart + 31ms, true);
  EXPECT_TRUE(resender.is_idle());
  EXPECT_FALSE(resender.deadline());
}

}  // namespace
}  // namespace tutti::in_network
