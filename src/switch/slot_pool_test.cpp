#include "src/switch/slot_pool.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "src/switch/combine.hpp"

namespace tutti::in_network {
namespace {

using Words = std::vector<std::int32_t>;

/// A pool and what its tests say about a chunk.
struct PoolUnderTest {
  PoolUnderTest(std::uint32_t slots, unsigned workers, PoolRole role = PoolRole::kRoot)
      : memory(slots), pool(pointers(), workers, role) {}
  std::vector<Slot*> pointers() {
    std::vector<Slot*> all;
    for (Slot& slot : memory) all.push_back(&slot);
    return all;
  }
  SlotPool::Answer add(std::uint8_t worker, std::uint64_t chunk, const Words& values,
                       Lanes lanes = Lanes::kInt32Sum) {
    return pool.contribute(packet(worker, chunk, values, lanes));
  }
  static Packet packet(std::uint8_t worker, std::uint64_t chunk, const Words& values,
                       Lanes lanes = Lanes::kInt32Sum) {
    return {.sender = worker,
            .lanes = lanes,
            .chunk = chunk,
            .count = static_cast<std::uint16_t>(values.size()),
            .wants = true,
            .values = std::as_bytes(std::span(values))};
  }
  std::vector<Slot> memory;
  SlotPool pool;
};

Words words_of(const SlotPool::Answer& answer) {
  Words words(answer.packet.values.size() / 4);
  if (!words.empty())
    std::memcpy(words.data(), answer.packet.values.data(), answer.packet.values.size());
  return words;
}

TEST(SlotPool, AddsAndSendsTheResultToAll) {
  PoolUnderTest test(2, 3);
  EXPECT_EQ(test.add(1, 0, {1, 2}).send, Send::kNothing);
  EXPECT_EQ(test.add(0, 0, {10, 20}).send, Send::kNothing);
  const SlotPool::Answer answer = test.add(2, 0, {0x7fffffff, 5});
  EXPECT_EQ(answer.send, Send::kResult);
  EXPECT_EQ(answer.to, 0b111U);
  EXPECT_EQ(answer.without_values, 0U);
  EXPECT_EQ(answer.packet.chunk, 0U);
  EXPECT_EQ(answer.packet.workers, 0b100U) << "the last";
  EXPECT_EQ(words_of(answer), (Words{static_cast<std::int32_t>(0x7fffffffU + 11), 27}));
}

TEST(SlotPool, AnswersARepeatedContributionToItsSenderAlone) {
  PoolUnderTest test(1, 2);
  test.add(0, 0, {1});
  SlotPool::Answer answer = test.add(0, 0, {1});
  EXPECT_EQ(answer.send, Send::kWaiting);
  EXPECT_EQ(answer.to, 0b01U);
  EXPECT_EQ(answer.packet.workers, 0b10U) << "worker 1 is missing";
  test.add(1, 0, {2});
  answer = test.add(0, 0, {1});
  EXPECT_EQ(answer.send, Send::kResult);
  EXPECT_EQ(answer.to, 0b01U);
  EXPECT_EQ(words_of(answer), Words{3});
}

TEST(SlotPool, UsesAVersionAgainWithoutClearingIt) {
  PoolUnderTest test(1, 2);
  for (std::uint64_t chunk = 0; chunk < 6; ++chunk) {
    const auto value = static_cast<std::int32_t>(chunk);
    test.add(0, chunk, {value, value});
    EXPECT_EQ(words_of(test.add(1, chunk, {1, 2})), (Words{value + 1, value + 2}));
  }
  EXPECT_EQ(test.add(0, 3, {9, 9}).send, Send::kNothing) << "a late copy";
  EXPECT_EQ(words_of(test.add(0, 5, {9, 9})), (Words{6, 7})) << "the result is unchanged";
}

TEST(SlotPool, TakesTheGreatestExponent) {
  PoolUnderTest test(1, 3);
  SlotPool::Answer answer;
  for (const std::uint8_t worker : {0, 1, 2}) {
    Packet packet = PoolUnderTest::packet(worker, 0, {}, Lanes::kFloat32Sum);
    packet.exponent = static_cast<std::int16_t>(worker == 1 ? -3 : -100);
    answer = test.pool.contribute(packet);
  }
  EXPECT_EQ(answer.packet.exponent, -3);
  EXPECT_TRUE(answer.packet.values.empty());
}

TEST(SlotPool, ChunksOfOneSlotWaitForEachOther) {
  PoolUnderTest test(2, 2);
  const SlotPool::Answer early = test.add(0, 2, {1});
  EXPECT_EQ(early.send, Send::kRefusal);
  EXPECT_EQ(early.packet.reason, Refusal::kOutOfTurn);
  EXPECT_EQ(early.to, 0b01U);
  EXPECT_EQ(test.add(0, kNoChunk, {1}).packet.reason, Refusal::kOutOfTurn);
  test.add(0, 0, {1});
  EXPECT_EQ(test.add(0, 2, {1}).send, Send::kRefusal) << "chunk 0 is not complete";
  test.add(1, 0, {1});
  EXPECT_EQ(test.add(0, 2, {1}).send, Send::kNothing);
  EXPECT_EQ(test.add(1, 1, {1}).send, Send::kNothing) << "another slot";
}

TEST(SlotPool, RefusesContributionsThatDoNotFitAndTellsAll) {
  const auto refusal_of = [](auto change, Lanes lanes) {
    PoolUnderTest test(1, 3);
    test.add(0, 0, {1, 2}, lanes);
    const Words values = {1, 2};
    Packet packet = PoolUnderTest::packet(1, 0, values, lanes);
    change(packet);
    const SlotPool::Answer answer = test.pool.contribute(packet);
    EXPECT_EQ(answer.send, Send::kRefusal);
    EXPECT_EQ(answer.to, 0b111U);
    const SlotPool::Answer again = test.add(2, 0, {1, 2}, lanes);
    EXPECT_EQ(again.packet.reason, answer.packet.reason) << "later ones hear it, too";
    EXPECT_EQ(again.to, 0b100U);
    return answer.packet.reason;
  };
  const Lanes sum = Lanes::kInt32Sum;
  EXPECT_EQ(refusal_of([](Packet& p) { p.lanes = Lanes::kInt32Max; }, sum), Refusal::kLanesDiffer);
  EXPECT_EQ(refusal_of([](Packet& p) { p.values = p.values.first(4), p.count = 1; }, sum),
            Refusal::kCountsDiffer);
  EXPECT_EQ(refusal_of([](Packet& p) { p.call = 1; }, sum), Refusal::kCallsDiffer);
  EXPECT_EQ(refusal_of([](Packet&) {}, Lanes::kWords), Refusal::kTwoSenders);
}

TEST(SlotPool, MovesTheValuesOfOneWorkerToThoseThatWantThem) {
  PoolUnderTest test(1, 3);
  const Words values = {5, 6};
  Packet packet = PoolUnderTest::packet(1, 0, values, Lanes::kWords);
  packet.wants = false;
  test.pool.contribute(packet);
  packet.values = {};
  packet.wants = true;
  packet.sender = 0;
  test.pool.contribute(packet);
  packet.sender = 2;
  const SlotPool::Answer answer = test.pool.contribute(packet);
  EXPECT_EQ(answer.send, Send::kResult);
  EXPECT_EQ(answer.to, 0b111U);
  EXPECT_EQ(answer.without_values, 0b010U);
  EXPECT_EQ(words_of(answer), values);
}

TEST(SlotPool, ALeafSendsItsSumUpAndTheResultDown) {
  PoolUnderTest test(1, 2, PoolRole::kLeaf);
  test.add(0, 0, {1, 2});
  const SlotPool::Answer up = test.add(1, 0, {3, 4});
  EXPECT_EQ(up.send, Send::kSum);
  EXPECT_EQ(up.packet.kind, PacketKind::kContribution);
  EXPECT_TRUE(up.packet.wants);
  EXPECT_EQ(words_of(up), (Words{4, 6}));

  const Words total = {100, 200};
  Packet result = PoolUnderTest::packet(kTheSwitch, 0, total);
  result.kind = PacketKind::kResult;
  result.wants = false;
  result.workers = 1U << 4;
  const SlotPool::Answer down = test.pool.answer_from_above(result, 4);
  EXPECT_EQ(down.send, Send::kResult);
  EXPECT_EQ(down.to, 0b11U);
  EXPECT_EQ(words_of(down), total);
  EXPECT_EQ(down.packet.workers, 0b10U) << "worker 1 made up the sum that was the last";
  EXPECT_EQ(test.pool.answer_from_above(result, 4).send, Send::kNothing) << "a copy";
  EXPECT_EQ(words_of(test.add(1, 0, {3, 4})), total) << "for who lost it";
}

TEST(SlotPool, ALeafPassesOnThatTheSwitchAboveLives) {
  PoolUnderTest test(1, 3, PoolRole::kLeaf);
  for (const std::uint8_t worker : {0, 1, 2}) test.add(worker, 0, {1});
  EXPECT_EQ(test.add(0, 0, {1}).send, Send::kSum) << "repeated for worker 0";
  EXPECT_EQ(test.add(2, 0, {1}).send, Send::kNothing) << "that was just done";
  EXPECT_EQ(test.add(0, 0, {1}).send, Send::kSum) << "the answer seems lost";
  const Packet waiting{.kind = PacketKind::kWaiting, .chunk = 0, .workers = 0b1000};
  const SlotPool::Answer answer = test.pool.answer_from_above(waiting, 4);
  EXPECT_EQ(answer.send, Send::kWaiting);
  EXPECT_EQ(answer.to, 0b101U);
  EXPECT_EQ(answer.packet.workers, 0b1000U);
  EXPECT_EQ(answer.packet.level, 1);
  EXPECT_EQ(test.pool.answer_from_above(waiting, 4).send, Send::kNothing) << "nobody asked";
}

TEST(SlotPool, ALeafDropsAnswersThatAreNotForItsSum) {
  PoolUnderTest test(1, 2, PoolRole::kLeaf);
  const Words values = {1, 2};
  Packet result = PoolUnderTest::packet(kTheSwitch, 0, values);
  result.kind = PacketKind::kResult;
  EXPECT_EQ(test.pool.answer_from_above(result, 4).send, Send::kNothing) << "nobody contributed";
  test.add(0, 0, values);
  EXPECT_EQ(test.pool.answer_from_above(result, 4).send, Send::kNothing) << "one is missing";
  test.add(1, 0, values);
  Packet brief = result;
  brief.values = {};
  brief.left_out = true;
  EXPECT_EQ(test.pool.answer_from_above(brief, 4).send, Send::kNothing) << "meant for another leaf";
  result.chunk = 2;
  EXPECT_EQ(test.pool.answer_from_above(result, 4).send, Send::kNothing) << "another chunk";
  result.chunk = 0;
  result.count = 1;
  result.values = result.values.first(4);
  const SlotPool::Answer wrong = test.pool.answer_from_above(result, 4);
  EXPECT_EQ(wrong.send, Send::kRefusal);
  EXPECT_EQ(wrong.to, 0b11U);
}

TEST(SlotPool, TakesAsManyWorkersAsAWordHasBits) {
  PoolUnderTest test(1, kMostWorkers);
  EXPECT_EQ(test.pool.workers(), kMostWorkers);
  for (std::uint8_t worker = 0; worker + 1U < kMostWorkers; ++worker)
    EXPECT_EQ(test.add(worker, 0, {1}).send, Send::kNothing);
  EXPECT_EQ(words_of(test.add(31, 0, {1})), Words{32});
}

TEST(Combine, EqualsAPlainReference) {
  const Words a = {0, -1, 0x7fffffff, static_cast<std::int32_t>(0x80000000), 5, 5};
  const Words b = {1, 1, 1, -1, -6, 6};
  const auto combined = [&](Lanes lanes) {
    Words sums = a;
    combine(lanes, sums, std::as_bytes(std::span(b)));
    return sums;
  };
  const std::int32_t least = static_cast<std::int32_t>(0x80000000);
  EXPECT_EQ(combined(Lanes::kInt32Sum), (Words{1, 0, least, 0x7fffffff, -1, 11}));
  EXPECT_EQ(combined(Lanes::kFloat16Sum), combined(Lanes::kUint32Sum));
  EXPECT_EQ(combined(Lanes::kInt32Min), (Words{0, -1, 1, least, -6, 5}));
  EXPECT_EQ(combined(Lanes::kInt32Max), (Words{1, 1, 0x7fffffff, -1, 5, 6}));
  EXPECT_EQ(combined(Lanes::kUint32Min), (Words{0, 1, 1, least, 5, 5}));
  EXPECT_EQ(combined(Lanes::kUint32Max), (Words{1, -1, 0x7fffffff, -1, -6, 6}));
  EXPECT_EQ(combined(Lanes::kWords), b);
}

}  // namespace
}  // namespace tutti::in_network
