#include "src/exec/direct_buffers.hpp"

#include <cstring>

#include "src/exec/team_of_two.hpp"

namespace tutti::exec {
namespace {

constexpr std::size_t kBytes = 4096;

/// Rank 0 broadcasts to rank 1, which reads its input where that lies.
class BuffersOfTwo : public TeamOfTwo {
 protected:
  BuffersOfTwo() {
    for (Rank rank = 0; rank < 2; ++rank) {
      auto bound = broadcast(rank, lower::ProgramProtocol::kDirect, kBytes);
      EXPECT_TRUE(bound);
      plans_[rank] = *std::move(bound);
      args_[rank].input = args_[rank].output = heap_->allocate(kBytes)->data();
      args_[rank].call = &call_;
      args_[rank].call_hash = hash_of(call_);
      launches_[rank].begin(*plans_[rank], args_[rank]);
      entries_[rank].begin_call();
    }
  }
  void enter(Rank rank) {
    ASSERT_TRUE(entries_[rank].may_enter());
    entries_[rank].enter(~std::uint64_t{0});
  }
  /// Rank 0 enters and says that its input lies at `offset`, and that all map it.
  void enter_with_input_at(std::uint64_t offset) {
    BufferPlaces places;
    places.input_offset_and_1 = offset + 1;
    places.output_offset_and_1 = 1;
    places.mapped_by_all = 1;
    std::memcpy(entries_[0].own().payload, &places, sizeof places);
    enter(0);
  }

  const CallSignature call_{Collective::kBroadcast, DataType::kInt8, ReduceOp::kSum, 0, kBytes};
  std::unique_ptr<Plan> plans_[2];
  CollectiveArgs args_[2];
  Launch launches_[2] = {Launch(*teams_[0]), Launch(*teams_[1])};
  Entries entries_[2] = {{*teams_[0], launches_[0]}, {*teams_[1], launches_[1]}};
  ProgressCounters progress_[2] = {ProgressCounters(*teams_[0]), ProgressCounters(*teams_[1])};
  DirectBuffers buffers_[2] = {{*teams_[0], launches_[0], entries_[0], progress_[0]},
                               {*teams_[1], launches_[1], entries_[1], progress_[1]}};
};

TEST_F(BuffersOfTwo, AreFoundWhereTheirOwnerAnnouncesThem) {
  buffers_[1].announce(false);
  enter(1);
  EXPECT_EQ(*buffers_[1].all_mapped(), std::nullopt);
  buffers_[0].announce(false);
  enter(0);
  EXPECT_EQ(*buffers_[1].all_mapped(), true);
  EXPECT_EQ(buffers_[1].input(0), args_[0].input);
  EXPECT_EQ(buffers_[1].output(0), args_[0].output);
}

TEST_F(BuffersOfTwo, AreNotUsedWhereOneRankDeclines) {
  for (Rank rank = 0; rank < 2; ++rank) {
    buffers_[rank].announce(rank == 0);
    enter(rank);
  }
  for (Rank rank = 0; rank < 2; ++rank) EXPECT_EQ(*buffers_[rank].all_mapped(), false);
}

TEST_F(BuffersOfTwo, AreNotSoughtOutsideOfTheirOwnersHeap) {
  buffers_[1].announce(false);
  enter(1);
  enter_with_input_at(heap_->mapping().size() - kBytes + 1);
  const auto mapped = buffers_[1].all_mapped();
  ASSERT_FALSE(mapped);
  EXPECT_EQ(mapped.error().code, Code::kPeerFailed);
  EXPECT_EQ(mapped.error().peer, 0);
}

TEST_F(BuffersOfTwo, MayReachToTheEndOfTheirOwnersHeap) {
  buffers_[1].announce(false);
  enter(1);
  enter_with_input_at(heap_->mapping().size() - kBytes);
  EXPECT_EQ(*buffers_[1].all_mapped(), true);
}

TEST_F(BuffersOfTwo, OfAnOwnerThatGaveUpAreAnError) {
  for (Rank rank = 0; rank < 2; ++rank) {
    buffers_[rank].announce(false);
    enter(rank);
  }
  EXPECT_EQ(*buffers_[1].all_mapped(), true);
  buffers_[0].take_back();
  const Pass& pass = plans_[1]->passes()[0];
  const std::byte* sources[] = {buffers_[1].input(0)};
  Destination destinations[] = {{args_[1].output}};
  const Status ran = buffers_[1].run_pass(pass, sources, destinations);
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code, Code::kAborted);
  EXPECT_EQ(ran.error().peer, 0);
}

TEST_F(BuffersOfTwo, AreFreeOnceTheirUsersHaveLeft) {
  for (Rank rank = 0; rank < 2; ++rank) {
    buffers_[rank].announce(false);
    enter(rank);
  }
  progress_[0].leave(*plans_[0]);
  progress_[0].publish(0);
  EXPECT_FALSE(*buffers_[0].are_free());
  EXPECT_EQ(teams_[0]->waits().waiting_for(), 1);
  progress_[1].leave(*plans_[1]);
  progress_[1].publish(0);
  EXPECT_TRUE(*buffers_[0].are_free());
  EXPECT_TRUE(*buffers_[1].are_free()) << "nobody uses them";
}

}  // namespace
}  // namespace tutti::exec
