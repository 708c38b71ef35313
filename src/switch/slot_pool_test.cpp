#include "src/switch/slot_pool.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
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
    Packet packet = PoolUnderTest::packet(worker, 0, {}, Lanes::kInt32Sum);
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

/// Random values of which many are the least and the greatest.
template <class T>
std::vector<T> edges(std::mt19937_64& random) {
  std::vector<T> values(37);
  for (T& value : values) {
    const std::uint64_t draw = random();
    value = draw % 4 == 0   ? std::numeric_limits<T>::min()
            : draw % 4 == 1 ? std::numeric_limits<T>::max()
                            : static_cast<T>(draw >> 8);
  }
  return values;
}

template <class T>
void expect_combined(Lanes lanes, T (*reference)(T, T)) {
  std::mt19937_64 random(static_cast<std::uint64_t>(lanes));
  const std::vector<T> a = edges<T>(random), b = edges<T>(random);
  ASSERT_EQ(width_of(lanes), sizeof(T)) << name_of(lanes);
  std::vector<std::byte> sums(a.size() * sizeof(T) + 1), values(sums.size());  // at odd addresses
  const std::size_t bytes = sums.size() - 1;
  std::memcpy(sums.data() + 1, a.data(), bytes);
  std::memcpy(values.data() + 1, b.data(), bytes);
  combine(lanes, std::span(sums).subspan(1), std::span(values).subspan(1));
  for (std::size_t i = 0; i < a.size(); ++i) {
    T sum;
    std::memcpy(&sum, sums.data() + 1 + i * sizeof sum, sizeof sum);
    EXPECT_EQ(sum, reference(a[i], b[i])) << name_of(lanes) << " of " << +a[i] << ", " << +b[i];
  }
}

template <class T>
T wrapping_sum(T a, T b) {
  return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
template <class T>
T least(T a, T b) {
  return a < b ? a : b;
}
template <class T>
T greatest(T a, T b) {
  return a < b ? b : a;
}
template <class T>
void expect_all_combined(DataType type) {
  const int sum = static_cast<int>(sum_of(type));
  expect_combined<T>(static_cast<Lanes>(sum), wrapping_sum<T>);
  expect_combined<T>(static_cast<Lanes>(sum + 1), least<T>);
  expect_combined<T>(static_cast<Lanes>(sum + 2), greatest<T>);
}

TEST(Combine, EqualsAPlainReference) {
  expect_all_combined<std::int8_t>(DataType::kInt8);
  expect_all_combined<std::uint8_t>(DataType::kUint8);
  expect_all_combined<std::int32_t>(DataType::kInt32);
  expect_all_combined<std::uint32_t>(DataType::kUint32);
  expect_all_combined<std::int64_t>(DataType::kInt64);
  expect_all_combined<std::uint64_t>(DataType::kUint64);
  expect_combined<std::int16_t>(Lanes::kInt16Sum, wrapping_sum<std::int16_t>);
  expect_combined<std::uint32_t>(Lanes::kWords, [](std::uint32_t, std::uint32_t b) { return b; });
}

}  // namespace
}  // namespace tutti::in_network
