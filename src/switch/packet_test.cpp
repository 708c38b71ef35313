#include "src/switch/packet.hpp"

#include <algorithm>
#include <random>
#include <unordered_set>
#include <vector>

#include <gtest/gtest.h>

#include "src/switch/seal.hpp"

namespace tutti::in_network {
namespace {

std::vector<std::byte> words(std::size_t count, std::uint8_t fill = 7) {
  return std::vector<std::byte>(count * 4, std::byte{fill});
}

/// A contribution with every field set.
Packet full_packet(std::span<const std::byte> values) {
  return {.kind = PacketKind::kContribution,
          .sender = 31,
          .lanes = Lanes::kInt32Sum,
          .session = 0x1122334455667788,
          .counter = 99,
          .chunk = std::uint64_t{1} << 40,
          .count = static_cast<std::uint16_t>(values.size() / 4),
          .exponent = -140,
          .wants = true,
          .call = 0xdeadbeef,
          .values = values};
}

Flaw reparsed(const Packet& packet, Packet& out, PacketBytes& room) {
  return parse(build(packet, room), out);
}

TEST(Packet, IsReadAsItWasBuilt) {
  const auto values = words(kChunkBytes / 4);
  PacketBytes room;
  Packet out;
  const Packet packet = full_packet(values);
  ASSERT_EQ(build(packet, room).size(), kMostPacketBytes);
  ASSERT_EQ(reparsed(packet, out, room), Flaw::kNone);
  EXPECT_EQ(out.kind, packet.kind);
  EXPECT_EQ(out.sender, packet.sender);
  EXPECT_EQ(out.lanes, packet.lanes);
  EXPECT_EQ(out.session, packet.session);
  EXPECT_EQ(out.counter, packet.counter);
  EXPECT_EQ(out.chunk, packet.chunk);
  EXPECT_EQ(out.count, packet.count);
  EXPECT_EQ(out.exponent, packet.exponent);
  EXPECT_EQ(out.wants, packet.wants);
  EXPECT_EQ(out.call, packet.call);
  EXPECT_TRUE(std::ranges::equal(out.values, values));
}

TEST(Packet, WithoutValuesHas64Bytes) {
  PacketBytes room;
  Packet out;
  Packet packet = full_packet({});
  packet.count = 300;
  EXPECT_EQ(build(packet, room).size(), 64U);
  EXPECT_EQ(reparsed(packet, out, room), Flaw::kNone);
  EXPECT_EQ(out.count, 300);
  EXPECT_TRUE(out.values.empty());
}

TEST(Packet, HasAsManyValuesAsTheirWidthAllows) {
  const std::vector<std::byte> values(kChunkBytes, std::byte{5});
  PacketBytes room;
  Packet out;
  for (int i = 0; i < kLanes; ++i) {
    const auto lanes = static_cast<Lanes>(i);
    Packet packet = full_packet(values);
    packet.lanes = lanes;
    packet.count = static_cast<std::uint16_t>(most_values(lanes));
    EXPECT_EQ(reparsed(packet, out, room), Flaw::kNone) << name_of(lanes);
    EXPECT_EQ(out.count * width_of(lanes), out.values.size());
    ++packet.count;
    EXPECT_EQ(reparsed(packet, out, room), Flaw::kRange) << name_of(lanes);
    packet.count -= 2;
    EXPECT_EQ(reparsed(packet, out, room), Flaw::kLength) << name_of(lanes);
  }
}

TEST(Packet, OfAnyOtherLengthIsRefused) {
  const auto values = words(20);
  PacketBytes room;
  const auto bytes = build(full_packet(values), room);
  Packet out;
  for (std::size_t length = 0; length <= room.size(); ++length)
    EXPECT_EQ(parse(std::span(room).first(length), out) == Flaw::kNone, length == bytes.size());
}

TEST(Packet, WithFieldsThatDoNotFitIsRefused) {
  const auto values = words(20);
  PacketBytes room;
  Packet out;
  const auto flaw = [&](auto change) {
    Packet packet = full_packet(values);
    change(packet);
    return reparsed(packet, out, room);
  };
  EXPECT_EQ(flaw([](Packet& p) { p.sender = 32; }), Flaw::kRange);
  EXPECT_EQ(flaw([](Packet& p) { p.sender = kTheSwitch; }), Flaw::kRange);
  EXPECT_EQ(flaw([](Packet& p) { p.count = kChunkBytes / 4 + 1; }), Flaw::kRange);
  EXPECT_EQ(flaw([](Packet& p) { p.count = 19; }), Flaw::kLength);
  EXPECT_EQ(flaw([](Packet& p) { p.kind = PacketKind::kResult; }), Flaw::kRange);
  EXPECT_EQ(flaw([](Packet& p) { p.kind = static_cast<PacketKind>(5); }), Flaw::kRange);
  EXPECT_EQ(flaw([](Packet& p) { p.kind = static_cast<PacketKind>(0); }), Flaw::kRange);
  EXPECT_EQ(flaw([](Packet& p) { p.lanes = static_cast<Lanes>(kLanes); }), Flaw::kRange);
  EXPECT_EQ(flaw([](Packet& p) { p.reason = Refusal::kTwoSenders; }), Flaw::kRange);
  EXPECT_EQ(flaw([](Packet& p) { p.reason = static_cast<Refusal>(kRefusals); }), Flaw::kRange);
  EXPECT_EQ(flaw([](Packet& p) { p.workers = 1; }), Flaw::kRange);
  EXPECT_EQ(flaw([](Packet& p) { p.left_out = true; }), Flaw::kRange);
}

TEST(Packet, OfASwitchMayNameWhoIsMissingOrWhyItRefuses) {
  PacketBytes room;
  Packet out;
  const Packet waiting{.kind = PacketKind::kWaiting, .workers = 0xffffffff, .level = 1};
  EXPECT_EQ(reparsed(waiting, out, room), Flaw::kNone);
  EXPECT_EQ(out.workers, 0xffffffff);
  EXPECT_EQ(out.level, 1);
  EXPECT_EQ(reparsed({.kind = PacketKind::kResult, .workers = 4}, out, room), Flaw::kNone);
  EXPECT_EQ(reparsed({.kind = PacketKind::kResult, .level = 1}, out, room), Flaw::kRange);
  const Packet refusal{.kind = PacketKind::kRefusal, .reason = Refusal::kOutOfTurn};
  EXPECT_EQ(reparsed(refusal, out, room), Flaw::kNone);
  EXPECT_EQ(out.reason, Refusal::kOutOfTurn);
  EXPECT_EQ(reparsed({.kind = PacketKind::kRefusal}, out, room), Flaw::kRange);
}

TEST(Packet, EnumeratorsHaveNames) {
  for (int i = 0; i < kLanes; ++i) EXPECT_FALSE(name_of(static_cast<Lanes>(i)).empty());
  for (int i = 0; i < kRefusals; ++i) EXPECT_FALSE(meaning_of(static_cast<Refusal>(i)).empty());
}

TEST(Seal, IsBrokenByEveryFlippedBit) {
  const auto values = words(3);
  PacketKey key{std::byte{1}, std::byte{2}};
  PacketBytes room;
  const auto bytes = build(full_packet(values), room);
  seal(key, bytes);
  EXPECT_TRUE(open(key, bytes));
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    EXPECT_FALSE(open(key, bytes)) << "bit " << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
  }
  key[15] = std::byte{1};
  EXPECT_FALSE(open(key, bytes)) << "another key";
}

TEST(Seal, IsAcceptedOnce) {
  const PacketKey key{std::byte{9}};
  Sealer sealer(key);
  Unsealer unsealer(key);
  PacketBytes room;
  Packet out;
  for (int i = 0; i < 3; ++i) {
    const auto bytes = sealer.seal(full_packet({}), room);
    ASSERT_EQ(parse(bytes, out), Flaw::kNone);
    EXPECT_TRUE(unsealer.accepts(out, bytes));
    EXPECT_FALSE(unsealer.accepts(out, bytes));
  }
}

// Against a plain reference: a list of what has been seen.
TEST(ReplayWindow, TakesEachCounterOnceAndForgetsOldOnes) {
  std::mt19937_64 random(6);
  ReplayWindow window;
  std::unordered_set<std::uint64_t> seen;
  std::uint64_t newest = 0;
  for (int i = 0; i < 50'000; ++i) {
    const std::uint64_t jump = random() % 500 == 0 ? random() % 5000 : random() % 3;
    std::uint64_t counter = newest + jump;
    if (random() % 2 == 0) counter -= std::min(counter, random() % 1100);
    const bool is_new = !seen.contains(counter);
    const bool taken = window.take(counter);
    EXPECT_TRUE(is_new || !taken) << counter;
    // Up to 63 counters at the end of the window may be lost with the word that they are in.
    const bool is_recent = counter + ReplayWindow::kWidth - 64 > newest;
    EXPECT_TRUE(taken || !is_new || !is_recent) << counter;
    if (taken) seen.insert(counter);
    newest = std::max(newest, counter);
  }
  EXPECT_TRUE(window.take(~std::uint64_t{0}));
  EXPECT_FALSE(window.take(~std::uint64_t{0}));
  EXPECT_FALSE(window.take(newest + 1));
}

}  // namespace
}  // namespace tutti::in_network
