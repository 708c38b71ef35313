#include "src/exec/entries.hpp"

#include <cstring>
#include <vector>

#include <gmock/gmock.h>

#include "src/exec/team_of_two.hpp"

namespace tutti::exec {
namespace {

using lower::ProgramProtocol;
using ::testing::HasSubstr;

/// Rank 0 publishes to rank 1.
class EntriesOfTwo : public TeamOfTwo {
 protected:
  EntriesOfTwo() { begin(8); }

  void begin(std::size_t bytes) {
    bytes_ = bytes;
    for (Rank rank = 0; rank < 2; ++rank) {
      auto bound = broadcast(rank, ProgramProtocol::kPublished, bytes);
      ASSERT_TRUE(bound) << bound.error().what;
      plans_[rank] = *std::move(bound);
      set_call(rank, {Collective::kBroadcast, DataType::kInt8, ReduceOp::kSum, 0, bytes});
    }
  }
  void set_call(Rank rank, const CallSignature& call) {
    calls_[rank] = call;
    args_[rank].input = input_.data();
    args_[rank].call = &calls_[rank];
    args_[rank].call_hash = hash_of(call);
    launches_[rank].begin(*plans_[rank], args_[rank]);
  }
  /// False: it may not yet.
  bool enter(Rank rank, std::uint64_t readers) {
    if (!began_[rank]) entries_[rank].begin_call();
    if (entries_[rank].lacks_packets()) {
      EXPECT_TRUE(entries_[rank].make_packets());
    }
    began_[rank] = !entries_[rank].may_enter();
    if (!began_[rank]) entries_[rank].enter(readers);
    return !began_[rank];
  }
  int calls_ahead(int most) {
    int calls = 0;
    while (calls < most && enter(0, kReader)) ++calls;
    return calls;
  }

  static constexpr std::uint64_t kReader = 0b10, kNobody = 0;
  std::vector<std::byte> input_ = std::vector<std::byte>(kPacketBytes, std::byte{7});
  std::size_t bytes_ = 0;
  std::unique_ptr<Plan> plans_[2];
  CallSignature calls_[2];
  CollectiveArgs args_[2];
  Launch launches_[2] = {Launch(*teams_[0]), Launch(*teams_[1])};
  Entries entries_[2] = {{*teams_[0], launches_[0]}, {*teams_[1], launches_[1]}};
  bool began_[2] = {};
};

TEST_F(EntriesOfTwo, BringTheInputToWhoSeesThem) {
  for (const std::size_t bytes : {kInlineBytes, kNoteBytes, kPacketBytes}) {
    begin(bytes);
    ASSERT_TRUE(enter(1, kNobody));
    EXPECT_FALSE(*entries_[1].has_entered(0));
    EXPECT_EQ(teams_[1]->waits().waiting_for(), 0);
    ASSERT_TRUE(enter(0, kReader));
    EXPECT_TRUE(*entries_[1].has_entered(0));
    EXPECT_EQ(std::memcmp(entries_[1].published(0, holder_of(bytes)), input_.data(), bytes), 0);
  }
}

TEST_F(EntriesOfTwo, LetARankRunAsFarAheadAsThereAreEntries) {
  EXPECT_EQ(calls_ahead(1000), kEntries);
  EXPECT_EQ(teams_[0]->waits().waiting_for(), 1);
  while (entries_[1].sequence() < kEntries) ASSERT_TRUE(enter(1, kNobody));
  EXPECT_GT(calls_ahead(1000), kEntries / 2);
}

TEST_F(EntriesOfTwo, LetARankRunAsFarAheadAsPacketsFit) {
  begin(kPacketBytes);
  const auto fit = static_cast<int>(teams_[0]->packet_ring_bytes() / kPacketBytes);
  EXPECT_EQ(calls_ahead(1000), fit);
  EXPECT_EQ(teams_[0]->waits().waiting_for(), 1);
  while (entries_[1].sequence() < static_cast<std::uint64_t>(fit)) ASSERT_TRUE(enter(1, kNobody));
  EXPECT_GT(calls_ahead(1000), fit / 2);
}

TEST_F(EntriesOfTwo, RefuseAPacketOutsideOfItsOwnersMemory) {
  begin(kPacketBytes);
  ASSERT_TRUE(enter(0, kReader));
  ASSERT_TRUE(enter(1, kNobody));
  ASSERT_TRUE(*entries_[1].has_entered(0));
  for (const std::uint64_t offset :
       {std::uint64_t{1}, heap_->mapping().size() - kPacketBytes + kLine, ~std::uint64_t{127}}) {
    const PacketPlace place{offset};
    std::memcpy(entries_[0].own().payload, &place, sizeof place);
    EXPECT_EQ(entries_[1].published(0, Holder::kPacket), nullptr) << offset;
  }
}

TEST_F(EntriesOfTwo, WaitForNobodyWhoDoesNotReadThem) {
  for (std::uint64_t call = 0; call < 3 * kEntries; ++call) ASSERT_TRUE(enter(0, kNobody));
}

TEST_F(EntriesOfTwo, ShowBothCallsWhereTheyDiffer) {
  set_call(0, {Collective::kBroadcast, DataType::kFloat32, ReduceOp::kSum, 0, 77});
  ASSERT_TRUE(enter(0, kReader));
  ASSERT_TRUE(enter(1, kNobody));
  const Result<bool> entered = entries_[1].has_entered(0);
  ASSERT_FALSE(entered);
  EXPECT_EQ(entered.error().code, Code::kInvalidUsage);
  EXPECT_EQ(entered.error().peer, 0);
  EXPECT_THAT(entered.error().what, HasSubstr(describe(calls_[0])));
  EXPECT_THAT(entered.error().what, HasSubstr(describe(calls_[1])));
}

TEST_F(EntriesOfTwo, TellOfAPeerThatDidNotWait) {
  for (std::uint64_t call = 0; call <= kEntries; ++call) ASSERT_TRUE(enter(0, kNobody));
  ASSERT_TRUE(enter(1, kNobody));
  const Result<bool> entered = entries_[1].has_entered(0);
  ASSERT_FALSE(entered);
  EXPECT_EQ(entered.error().code, Code::kInvalidUsage);
  EXPECT_THAT(entered.error().what, HasSubstr("is in call 65 and did not wait"));
}

TEST_F(EntriesOfTwo, AreSkippedUpToTheFirstThatIsMissing) {
  const std::span<const Place> places = plans_[1]->places(plans_[1]->passes()[0]);
  ASSERT_TRUE(enter(1, kNobody));
  EXPECT_EQ(entries_[1].skip_entered(places, 0), 0U);
  ASSERT_TRUE(enter(0, kReader));
  EXPECT_EQ(entries_[1].skip_entered(places, 0), places.size());
}

TEST_F(EntriesOfTwo, HoldNoMoreThanAPacket) {
  const auto bound = broadcast(0, ProgramProtocol::kPublished, kPacketBytes + 1);
  ASSERT_FALSE(bound);
  EXPECT_EQ(bound.error().code, Code::kInternal);
}

}  // namespace
}  // namespace tutti::exec
