#include "src/switch/sessions.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/switch/data_plane.hpp"

namespace tutti::in_network {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

SessionRequest request_of(std::uint64_t id, std::uint32_t slots, unsigned workers = 2) {
  return {.id = id, .key = {std::byte{1}}, .workers = workers, .slots = slots};
}

std::uint32_t granted(Sessions& sessions, std::uint64_t id, std::uint32_t slots) {
  const Result<std::uint32_t> foretold = sessions.would_grant(request_of(id, slots));
  const Result<Session*> session = sessions.open(request_of(id, slots), {});
  EXPECT_TRUE(session) << session.error().what;
  if (!session || !foretold) return 0;
  EXPECT_EQ(*foretold, (*session)->pool().slots());
  return *foretold;
}

TEST(Sessions, GiveWhatIsAskedForIfThereIsPlenty) {
  Sessions sessions({.slots = 100, .sessions = 4, .least_slots = 5});
  EXPECT_EQ(granted(sessions, 1, 3), 3U);
  EXPECT_EQ(granted(sessions, 2, 20), 20U);
  EXPECT_EQ(sessions.free_slots(), 77U);
}

TEST(Sessions, LeaveTheLeastForEachThatMayCome) {
  Sessions sessions({.slots = 100, .sessions = 4, .least_slots = 10});
  EXPECT_EQ(granted(sessions, 1, 1000), 35U) << "half of what is not set aside";
  EXPECT_EQ(granted(sessions, 2, 1000), 22U);
  EXPECT_EQ(granted(sessions, 3, 1000), 16U);
  EXPECT_EQ(granted(sessions, 4, 1000), 27U) << "nobody else can come";
  EXPECT_EQ(sessions.free_slots(), 0U);
  const auto none = sessions.open(request_of(5, 1), {});
  ASSERT_FALSE(none);
  EXPECT_FALSE(sessions.would_grant(request_of(5, 1)));
  EXPECT_EQ(none.error().code, Code::kUnavailable);
  EXPECT_THAT(none.error().what, HasSubstr("all 4 sessions"));
  EXPECT_TRUE(sessions.close(2));
  EXPECT_EQ(granted(sessions, 6, 1000), 22U);
}

TEST(Sessions, AlwaysHaveTheLeastForOneMore) {
  const SwitchLimits limits{.slots = 300, .sessions = 10, .least_slots = 20};
  const auto seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  Sessions sessions(limits);
  std::map<std::uint64_t, std::uint32_t> open;  // slots of each
  for (std::uint64_t id = 1; id < 5000; ++id) {
    std::uint32_t used = 0;
    for (const auto& [other, slots] : open) used += slots;
    ASSERT_EQ(sessions.free_slots(), limits.slots - used);
    if (open.size() == limits.sessions || random() % 3 == 0) {
      if (open.empty()) continue;
      const auto victim = std::next(open.begin(), static_cast<long>(random() % open.size()));
      ASSERT_TRUE(sessions.close(victim->first));
      open.erase(victim);
      continue;
    }
    const std::uint32_t wanted = 1 + random() % 100;
    open[id] = granted(sessions, id, wanted);
    ASSERT_GE(open[id], std::min(wanted, limits.least_slots));
    ASSERT_LE(open[id], wanted);
  }
}

TEST(Sessions, SayThatSlotsAreSetAside) {
  Sessions sessions({.slots = 10, .sessions = 4, .least_slots = 8});
  const auto none = sessions.open(request_of(1, 8), {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kUnavailable);
  EXPECT_THAT(none.error().what, HasSubstr("set aside"));
}

TEST(Sessions, RefuseWhatNoSwitchCanDo) {
  Sessions sessions({.slots = 64, .sessions = 2, .least_slots = 8});
  const auto refusal = [&](const SessionRequest& request) {
    const auto session = sessions.open(request, {});
    EXPECT_FALSE(session);
    return session ? "" : session.error().what;
  };
  EXPECT_THAT(refusal(request_of(1, 8, 33)), HasSubstr("tree of switches"));
  EXPECT_THAT(refusal(request_of(1, 8, 0)), HasSubstr("0 workers"));
  EXPECT_THAT(refusal(request_of(1, 0)), HasSubstr("without slots"));
  EXPECT_EQ(granted(sessions, 1, 8), 8U);
  EXPECT_THAT(refusal(request_of(1, 8)), HasSubstr("open already"));
  SessionRequest leaf = request_of(2, 8);
  leaf.above = Above{.session = 77, .worker = 32};
  EXPECT_THAT(refusal(leaf), HasSubstr("switch above"));
}

TEST(Sessions, CloseWhenNothingWasHeardForLong) {
  Sessions sessions({.slots = 64, .sessions = 4, .least_slots = 8});
  const TimePoint start{};
  const SessionRequest request = request_of(1, 8);
  ASSERT_TRUE(sessions.open(request, start));
  ASSERT_TRUE(sessions.open(request_of(2, 8), start));
  Sealer sealer(request.key);
  PacketBytes room;
  const auto bytes = sealer.seal({.sender = 1, .session = 1}, room);
  Packet packet;
  ASSERT_EQ(parse(bytes, packet), Flaw::kNone);
  EXPECT_TRUE(sessions.find(1)->accepts(packet, bytes, start + 50s));
  EXPECT_EQ(sessions.find(1)->taken(), 1U);
  EXPECT_FALSE(sessions.find(1)->accepts(packet, bytes, start + 50s)) << "a copy";
  EXPECT_EQ(sessions.find(1)->taken(), 1U);
  EXPECT_EQ(sessions.close_idle(start + 60s, 60s), 1U);
  EXPECT_EQ(sessions.find(2), nullptr);
  sessions.find(1)->keep_alive(start + 55s);
  EXPECT_NE(sessions.find(1), nullptr);
  EXPECT_EQ(sessions.close_idle(start + 114s, 60s), 0U);
  EXPECT_EQ(sessions.close_idle(start + 115s, 60s), 1U);
  EXPECT_EQ(sessions.free_slots(), 64U);
  EXPECT_FALSE(sessions.close(1));
}

/// Notes what a switch sends.
struct NotingSink final : PacketSink {
  void heard(const Session& /*session*/, std::uint8_t worker) override { from = worker; }
  void to_workers(const Session& /*session*/, std::uint32_t workers,
                  std::span<const std::byte> bytes) override {
    to |= workers;
    sent.assign(bytes.begin(), bytes.end());
  }
  void to_above(const Session& /*session*/, std::span<const std::byte> bytes) override {
    above.assign(bytes.begin(), bytes.end());
  }
  void reply(std::span<const std::byte> bytes) override {
    replied.assign(bytes.begin(), bytes.end());
  }
  int from = -1;
  std::uint32_t to = 0;
  std::vector<std::byte> sent, above, replied;
};

TEST(DataPlane, AddsForAuthenticWorkersOnly) {
  Sessions sessions({.slots = 64, .sessions = 4, .least_slots = 8});
  const SessionRequest request = request_of(1, 8);
  ASSERT_TRUE(sessions.open(request, {}));
  DataPlane plane(sessions);
  Sealer right(request.key);
  Sealer wrong(PacketKey{std::byte{2}});
  PacketBytes room;
  NotingSink sink;
  const Packet own{.sender = 0, .session = 1};
  plane.take(wrong.seal(own, room), {}, sink);
  EXPECT_EQ(sink.from, -1);
  EXPECT_EQ(plane.counts().unauthentic, 1U);
  const auto bytes = right.seal(own, room);
  plane.take(bytes, {}, sink);
  EXPECT_EQ(sink.from, 0);
  plane.take(bytes, {}, sink);
  EXPECT_EQ(plane.counts().unauthentic, 2U) << "a copy";
  plane.take(right.seal({.sender = 2, .session = 1}, room), {}, sink);
  EXPECT_EQ(plane.counts().unauthentic, 3U) << "there are two workers";
  plane.take(right.seal({.kind = PacketKind::kResult, .session = 1}, room), {}, sink);
  EXPECT_EQ(plane.counts().unknown, 1U) << "this switch has no other above";
  plane.take(std::span(room).first(10), {}, sink);
  EXPECT_EQ(plane.counts().flawed, 1U);
  EXPECT_TRUE(sink.sent.empty());
  plane.take(right.seal({.sender = 1, .session = 1}, room), {}, sink);
  EXPECT_EQ(sink.to, 0b11U);
  Packet result;
  ASSERT_EQ(parse(sink.sent, result), Flaw::kNone);
  EXPECT_EQ(result.kind, PacketKind::kResult);
  EXPECT_TRUE(open(request.key, sink.sent));
}

TEST(DataPlane, AnswersAnUnknownSessionWithNoMoreBytesThanCame) {
  Sessions sessions({.slots = 64, .sessions = 4, .least_slots = 8});
  DataPlane plane(sessions);
  Sealer sealer(PacketKey{});
  PacketBytes room;
  NotingSink sink;
  plane.take(sealer.seal({.sender = 3, .session = 5, .chunk = 9}, room), {}, sink);
  Packet refusal;
  ASSERT_EQ(parse(sink.replied, refusal), Flaw::kNone);
  EXPECT_EQ(sink.replied.size(), kLeastPacketBytes);
  EXPECT_EQ(refusal.reason, Refusal::kUnknownSession);
  EXPECT_EQ(refusal.session, 5U);
}

}  // namespace
}  // namespace tutti::in_network
