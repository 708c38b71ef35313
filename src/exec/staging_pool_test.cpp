#include "src/exec/staging_pool.hpp"

#include <gtest/gtest.h>

namespace tutti::exec {
namespace {

constexpr std::size_t kRegion = 64 << 10;

class Staging : public ::testing::Test {
 protected:
  [[nodiscard]] std::size_t regions() const { return heap_->allocated_bytes() / kRegion; }

  /// A rank of `communicator` whose one reader is rank 1, at `progress_`.
  std::unique_ptr<StagingPool::Lease> lease(std::uint64_t communicator) {
    auto lease = std::make_unique<StagingPool::Lease>(pool_, communicator, kRegion);
    lease->set_readers({{1, &progress_}});
    return lease;
  }
  static std::byte* enter(StagingPool::Lease& lease) {
    const auto region = lease.enter();
    EXPECT_TRUE(region);
    return region ? *region : nullptr;
  }
  /// The call is over where progress is `left_at`.
  static void leave(StagingPool::Lease& lease, std::uint64_t left_at) {
    const std::uint64_t by_rank[] = {0, left_at};
    lease.leave(by_rank);
  }

  std::shared_ptr<SharedHeap> heap_ = *SharedHeap::create(1 << 20);
  StagingPool pool_{heap_};
  std::atomic<std::uint64_t> progress_ = 0;
};

TEST_F(Staging, RegionStaysWithItsHolderWhileNobodyElseNeedsOne) {
  const auto one = lease(1);
  std::byte* const region = enter(*one);
  leave(*one, 0);
  EXPECT_EQ(enter(*one), region);
  EXPECT_EQ(regions(), 1);
}

TEST_F(Staging, RegionPassesToAnotherCommunicatorOnlyOnceItsHolderAndAllReadersHaveLeft) {
  const auto busy = lease(1), read = lease(2), resting = lease(3), taker = lease(4);
  enter(*busy);
  enter(*read);
  leave(*read, 7);
  std::byte* const region = enter(*resting);
  leave(*resting, 6);
  progress_ = 6;
  EXPECT_EQ(enter(*taker), region);
  EXPECT_EQ(regions(), 3);
  EXPECT_NE(enter(*resting), region);
  EXPECT_EQ(regions(), 4);
  progress_ = 7;
  EXPECT_NE(enter(*lease(5)), nullptr);
  EXPECT_EQ(regions(), 3);  // the region of `read`, which went with its last holder
}

TEST_F(Staging, RegionsDoNotPassWithinACommunicator) {
  const auto even = lease(1), odd = lease(1);
  std::byte* const region = enter(*even);
  leave(*even, 0);
  EXPECT_NE(enter(*odd), region);
  EXPECT_EQ(regions(), 2);
}

TEST_F(Staging, RegionsPassBetweenEqualsInSizeAlone) {
  const auto small = lease(1);
  enter(*small);
  leave(*small, 0);
  StagingPool::Lease large(pool_, 2, 2 * kRegion);
  enter(large);
  EXPECT_EQ(regions(), 3);
}

TEST_F(Staging, AClosedLeaseGivesItsRegionBackWhenItRestsAndAtItsEndElse) {
  auto rests = lease(1), read = lease(2), failed = lease(3);
  for (const auto& one : {rests.get(), read.get(), failed.get()}) enter(*one);
  leave(*rests, 0);
  leave(*read, 1);
  for (const auto& one : {rests.get(), read.get(), failed.get()}) one->close();
  EXPECT_EQ(regions(), 2);
  progress_ = 1;
  const auto taker = lease(4);
  enter(*taker);
  EXPECT_EQ(regions(), 3) << "what is closed is nobody else's";
  read.reset();
  failed.reset();
  EXPECT_EQ(regions(), 1);
}

TEST_F(Staging, ShortMemoryIsAnErrorAndTheLeaseMayTryAgain) {
  std::vector<std::unique_ptr<StagingPool::Lease>> leases;
  for (std::uint64_t communicator = 1; communicator <= 16; ++communicator) {
    leases.push_back(lease(communicator));
    enter(*leases.back());
  }
  const auto late = lease(17);
  const auto none = late->enter();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kUnavailable);
  leave(*leases.front(), 0);
  EXPECT_NE(enter(*late), nullptr);
}

}  // namespace
}  // namespace tutti::exec
