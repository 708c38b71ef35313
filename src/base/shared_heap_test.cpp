#include "src/base/shared_heap.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tutti {
namespace {

constexpr std::size_t kMiB = 1 << 20;

std::unique_ptr<SharedHeap> make_heap(std::size_t bytes) {
  auto heap = SharedHeap::create(bytes);
  EXPECT_TRUE(heap) << heap.error().what;
  return *std::move(heap);
}

std::int64_t backed_bytes(const SharedHeap& heap) {
  struct stat status{};
  EXPECT_EQ(::fstat(heap.fd(), &status), 0);
  return status.st_blocks * 512;
}

TEST(SharedHeap, AHeapForEachCpuLeavesHalfOfTheAddressesFree) {
  constexpr std::size_t kGiB = std::size_t{1} << 30;
  EXPECT_EQ(default_heap_bytes(8 * kGiB, 2), 8 * kGiB);
  EXPECT_EQ(default_heap_bytes(512 * kGiB, 64), 512 * kGiB);
  EXPECT_LE(192 * default_heap_bytes(768 * kGiB, 192), std::size_t{1} << 46);
  EXPECT_GE(default_heap_bytes(768 * kGiB, 192), 256 * kGiB);
  EXPECT_EQ(default_heap_bytes(kGiB, 0), kGiB);  // a machine that does not say
}

TEST(SharedHeap, IsAsLargeAsPhysicalMemoryAndBacksNothingAtFirst) {
  const auto heap = make_heap(0);
  EXPECT_GE(heap->mapping().size(), 256 * kMiB);
  EXPECT_EQ(backed_bytes(*heap), 0);
  EXPECT_EQ(heap->allocated_bytes(), 0U);
}

TEST(SharedHeap, DetachedMemoryKeepsItsContentsAndPeersWriteElsewhere) {
  const auto heap = make_heap(16 * kMiB);
  const auto before = heap->allocate(kMiB), data = heap->allocate(kMiB);
  ASSERT_TRUE(before && data);
  const auto peer = PeerMapping::map(Fd(::dup(heap->fd())), heap->mapping().size());
  ASSERT_TRUE(peer) << peer.error().what;
  const auto offset = static_cast<std::size_t>(data->data() - heap->mapping().data());
  std::ranges::fill(*data, std::byte{7});
  EXPECT_TRUE(heap->is_shared(data->data(), kMiB));

  ASSERT_TRUE(heap->detach(data->subspan(5000, 20'000)));
  EXPECT_TRUE(std::ranges::all_of(*data, [](std::byte b) { return b == std::byte{7}; }));
  std::ranges::fill((*peer)->bytes().subspan(offset + 5000, 20'000), std::byte{9});
  EXPECT_TRUE(std::ranges::all_of(*data, [](std::byte b) { return b == std::byte{7}; }));
  EXPECT_FALSE(heap->is_shared(data->data(), kMiB));
  EXPECT_TRUE(heap->is_shared(before->data(), kMiB));
  ASSERT_TRUE(heap->detach(*data));  // again, and more of it
  std::ranges::fill((*peer)->bytes().subspan(offset, kMiB), std::byte{9});
  EXPECT_TRUE(std::ranges::all_of(*data, [](std::byte b) { return b == std::byte{7}; }));
  EXPECT_TRUE(heap->detach({}));

  ASSERT_TRUE(heap->free(data->data()));  // what a peer may still write is not given out again
  const auto next = heap->allocate(kMiB);
  ASSERT_TRUE(next);
  EXPECT_NE(next->data(), data->data());
  EXPECT_TRUE(heap->is_shared(next->data(), kMiB));
}

TEST(SharedHeap, AllocationsAreZeroedAlignedAndBackedUntilFreed) {
  const auto heap = make_heap(16 * kMiB);
  for (int round = 0; round < 2; ++round) {
    auto data = heap->allocate(kMiB + 3);
    ASSERT_TRUE(data) << data.error().what;
    EXPECT_EQ(data->size(), kMiB + 3);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data->data()) % 4096, 0U);
    EXPECT_TRUE(std::ranges::all_of(*data, [](std::byte b) { return b == std::byte{0}; }));
    EXPECT_GE(backed_bytes(*heap), static_cast<std::int64_t>(kMiB + 3));
    std::ranges::fill(*data, std::byte{7});  // the next round must not see it
    ASSERT_TRUE(heap->free(data->data()));
    EXPECT_EQ(backed_bytes(*heap), 0);
  }
}

TEST(SharedHeap, RefusesToFreeWhatItDidNotAllocate) {
  const auto heap = make_heap(kMiB);
  auto data = heap->allocate(8192);
  ASSERT_TRUE(data);
  int on_stack = 0;
  EXPECT_FALSE(heap->free(&on_stack));
  EXPECT_FALSE(heap->free(nullptr));
  EXPECT_FALSE(heap->free(data->data() + 4096));
  EXPECT_TRUE(heap->free(data->data()));
  const Status twice = heap->free(data->data());
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, Code::kInvalidArgument);
}

TEST(SharedHeap, RunningOutIsAnErrorAndFreeingHelps) {
  const auto heap = make_heap(kMiB);
  auto all = heap->allocate(kMiB);
  ASSERT_TRUE(all);
  auto more = heap->allocate(1);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, Code::kUnavailable);
  EXPECT_FALSE(heap->allocate(SIZE_MAX));
  ASSERT_TRUE(heap->free(all->data()));
  EXPECT_TRUE(heap->allocate(kMiB));
}

TEST(SharedHeap, OffsetsExistOnlyInsideOneLiveAllocation) {
  const auto heap = make_heap(kMiB);
  auto first = heap->allocate(8192);
  auto second = heap->allocate(4096);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(heap->offset_of(first->data() + 5, 100),
            static_cast<std::uint64_t>(first->data() + 5 - heap->mapping().data()));
  EXPECT_TRUE(heap->offset_of(first->data(), 8192));
  EXPECT_FALSE(heap->offset_of(first->data(), 8193));  // reaches into the second
  EXPECT_FALSE(heap->offset_of(first->data(), SIZE_MAX));
  EXPECT_FALSE(heap->offset_of(&first, 1));
  ASSERT_TRUE(heap->free(first->data()));
  EXPECT_FALSE(heap->offset_of(first->data(), 1));
}

TEST(SharedHeap, RandomAllocationsNeverOverlapAndCoalesceWhenFreed) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const auto heap = make_heap(4 * kMiB);
  std::vector<std::span<std::byte>> live;
  for (int step = 0; step < 2000; ++step) {
    if (live.empty() || random() % 2 == 0) {
      auto data = heap->allocate(random() % (256 << 10));
      if (!data) continue;
      std::ranges::fill(*data, static_cast<std::byte>(live.size()));
      for (const auto& other : live)
        EXPECT_TRUE(other.data() + other.size() <= data->data() ||
                    data->data() + data->size() <= other.data());
      live.push_back(*data);
    } else {
      const std::size_t victim = random() % live.size();
      ASSERT_TRUE(heap->free(live[victim].data()));
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(victim));
    }
  }
  for (const auto& data : live) ASSERT_TRUE(heap->free(data.data()));
  EXPECT_EQ(heap->allocated_bytes(), 0U);
  EXPECT_TRUE(heap->allocate(4 * kMiB)) << "holes did not coalesce";
}

TEST(SharedHeap, HalvesItsSizeUntilTheAddressSpaceHasRoom) {
#if defined(TUTTI_SANITIZED)
  GTEST_SKIP() << "sanitizers reserve more address space than the limit";
#endif
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{512 * kMiB, 512 * kMiB};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(2);
    const auto heap = SharedHeap::create(std::size_t{1} << 40);
    ::_exit(heap && (*heap)->mapping().size() >= 64 * kMiB && (*heap)->allocate(kMiB) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(PeerMapping, SeesWhatTheOwnerWrites) {
  const auto heap = make_heap(kMiB);
  auto data = heap->allocate(64);
  ASSERT_TRUE(data);
  auto peer = PeerMapping::map(Fd(::dup(heap->fd())), kMiB);
  ASSERT_TRUE(peer) << peer.error().what;
  (*data)[3] = std::byte{42};
  EXPECT_EQ((*peer)->bytes()[static_cast<std::size_t>(data->data() - heap->mapping().data()) + 3],
            std::byte{42});
}

TEST(PeerMapping, RefusesAnUnsealedFileAndAWrongSize) {
  Fd unsealed(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), kMiB), 0);
  EXPECT_FALSE(PeerMapping::map(std::move(unsealed), kMiB));
  const auto heap = make_heap(kMiB);
  EXPECT_FALSE(PeerMapping::map(Fd(::dup(heap->fd())), 2 * kMiB));
  EXPECT_FALSE(PeerMapping::map(Fd(::dup(heap->fd())), 0));
  EXPECT_FALSE(PeerMapping::map(Fd(), kMiB));
  EXPECT_FALSE(PeerMapping::map(Fd(::open("/dev/null", O_RDWR)), kMiB));
}

TEST(SharedHeap, APeerCannotResizeIt) {
  const auto heap = make_heap(kMiB);
  EXPECT_NE(::ftruncate(heap->fd(), 4096), 0);
  EXPECT_NE(::ftruncate(heap->fd(), 2 * kMiB), 0);
}

}  // namespace
}  // namespace tutti
