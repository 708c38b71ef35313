// Several communicators of the same processes, which share staging memory.
#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <span>

#include <gtest/gtest.h>

#include "tests/collectives/ranks.hpp"

namespace tutti {
namespace {

using testing::make_test_runtimes;
using testing::Placement;
using testing::run_ranks;
using testing::Runtimes;

constexpr std::size_t kStagingBytes = 64 << 10;
constexpr std::size_t kPageOfLead = 4 << 10;  // slots begin up to a line behind their region

Runtimes staging_runtimes(Placement placement, int n) {
  return make_test_runtimes(
      placement, n,
      {{"DIRECT", "0"}, {"STAGING_BYTES", std::to_string(kStagingBytes)}, {"TIMEOUT", "30"}});
}

/// Allocated by communicators that live, and by connections.
std::size_t heap_bytes(const Runtimes& runtimes) {
  const std::set<std::shared_ptr<Runtime>> processes(runtimes.begin(), runtimes.end());
  for (const auto& runtime : processes) runtime->deferred_reclaim.reclaim();
  return std::accumulate(
      processes.begin(), processes.end(), std::size_t{0},
      [](std::size_t sum, const auto& runtime) { return sum + runtime->heap->allocated_bytes(); });
}

/// Each rank's communicators, by number: `groups[rank][i]` are the ranks of one.
using Groups = std::vector<std::vector<std::unique_ptr<Communicator>>>;

Groups make_groups(const Runtimes& runtimes, int count) {
  Groups groups(runtimes.size());
  run_ranks(runtimes, [&](Communicator& world) {
    for (int i = 0; i < count; ++i) {
      auto made = world.split(0, 0, {}, Deadline::after(std::chrono::seconds(30)));
      ASSERT_TRUE(made) << made.error().what;
      groups[world.rank()].push_back(std::move(*made));
    }
  });
  return groups;
}

/// One rank of a random sequence of calls, the same on all ranks but for where their buffers lie,
/// whose results it looks at.
class Caller {
 public:
  Caller(Communicator& communicator, std::uint32_t seed)
      : communicator_(communicator), random_(seed), places_(1000 * communicator.rank() + seed) {}

  void call() {
    constexpr std::size_t kCounts[] = {1, 10'000, 20'000, 50'000, 150'000};
    const std::size_t count = kCounts[random_() % std::size(kCounts)];
    const auto root = static_cast<Rank>(random_() % communicator_.size());
    const bool sums = random_() % 2 == 0;
    const auto base = static_cast<std::int32_t>(random_() % 1000);
    const auto input = [&](Rank rank, std::size_t i) {
      return base + 1000 * rank + static_cast<std::int32_t>(i % 101);
    };
    const auto output = [&](std::size_t i) {
      std::int32_t sum = 0;
      for (Rank rank = 0; rank < communicator_.size(); ++rank) sum += input(rank, i);
      return sums ? sum : input(root, i);
    };
    const std::size_t offset = places_() % 32;
    memory_.assign(offset + count + 1, kUntouched);
    const std::span<std::int32_t> data(memory_.data() + offset, count);
    for (std::size_t i = 0; i < count; ++i) data[i] = input(communicator_.rank(), i);
    const Status done = communicator_.run(
        testing::call_of(sums ? Collective::kAllReduce : Collective::kBroadcast, data, root));
    ASSERT_TRUE(done) << done.error().what;
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(data[i], output(i)) << "element " << i << " of " << count << " at " << offset;
    ASSERT_TRUE(std::all_of(memory_.begin(), memory_.begin() + static_cast<std::ptrdiff_t>(offset),
                            [](std::int32_t each) { return each == kUntouched; }));
    ASSERT_EQ(memory_.back(), kUntouched);
  }

 private:
  static constexpr std::int32_t kUntouched = -1;
  Communicator& communicator_;
  std::mt19937 random_, places_;
  std::vector<std::int32_t> memory_;
};

class Staging : public ::testing::TestWithParam<Placement> {};

TEST_P(Staging, IsSharedByCommunicatorsThatRunOneAfterTheOther) {
  constexpr int kRanks = 4, kCommunicators = 10, kRegionsOfARank = 2;
  const Runtimes runtimes = staging_runtimes(GetParam(), kRanks);
  (void)make_groups(runtimes, 1);
  const std::size_t connected = heap_bytes(runtimes);
  Groups groups = make_groups(runtimes, kCommunicators);
  const std::size_t idle = heap_bytes(runtimes);
  for (int i = 0; i < kCommunicators; ++i) {
    std::vector<std::thread> ranks;
    for (const auto& own : groups)
      ranks.emplace_back([&, i] {
        std::vector<float> data(50'000, 1);
        for (int repeat = 0; repeat < 3; ++repeat) {
          const Call call = testing::call_of(Collective::kAllReduce, data);
          ASSERT_TRUE(own[i]->run(call));
        }
        EXPECT_EQ(data, std::vector<float>(data.size(), kRanks * kRanks * kRanks));
      });
    for (std::thread& rank : ranks) rank.join();
    EXPECT_LE(heap_bytes(runtimes) - idle,
              kRanks * kRegionsOfARank * (kStagingBytes + kPageOfLead));
  }
  groups.clear();
  EXPECT_EQ(heap_bytes(runtimes), connected);
}

TEST_P(Staging, NeverMixesUpCommunicatorsThatRunAtOnce) {
  constexpr int kRanks = 3, kCommunicators = 4;
  const int calls = kSanitized ? 15 : GetParam() == Placement::kMixed ? 40 : 200;
  const Groups groups = make_groups(staging_runtimes(GetParam(), kRanks), kCommunicators);
  std::vector<std::thread> threads;
  for (const auto& own : groups)
    for (std::uint32_t i = 0; i < kCommunicators; ++i)
      threads.emplace_back([&, i] {
        Caller caller(*own[i], i);
        std::mt19937 pause(100 * own[i]->rank() + i);
        for (int call = 0; call < calls && !::testing::Test::HasFatalFailure(); ++call) {
          caller.call();
          if (pause() % 4 == 0)
            std::this_thread::sleep_for(std::chrono::microseconds(pause() % 2000));
        }
      });
  for (std::thread& thread : threads) thread.join();
}

TEST_P(Staging, NeverMixesUpCommunicatorsThatARankUsesInTurn) {
  constexpr int kRanks = 3, kCommunicators = 4;
  const int calls = kSanitized ? 40 : GetParam() == Placement::kMixed ? 100 : 600;
  const Groups groups = make_groups(staging_runtimes(GetParam(), kRanks), kCommunicators);
  std::vector<std::thread> threads;
  for (const auto& own : groups)
    threads.emplace_back([&] {
      std::vector<Caller> callers;
      for (std::uint32_t i = 0; i < kCommunicators; ++i) callers.emplace_back(*own[i], i);
      std::mt19937 order(1);  // the same on all ranks
      std::mt19937 pause(own[0]->rank());
      for (int call = 0; call < calls && !::testing::Test::HasFatalFailure(); ++call) {
        callers[order() % kCommunicators].call();
        if (pause() % 8 == 0)
          std::this_thread::sleep_for(std::chrono::microseconds(pause() % 1000));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(, Staging,
                         ::testing::Values(Placement::kThreads, Placement::kProcesses,
                                           Placement::kMixed),
                         [](const auto& info) { return testing::name_of(info.param); });

}  // namespace
}  // namespace tutti
