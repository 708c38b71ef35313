// What communicators cost while nobody uses them, and that many of them work.
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "nccl.h"

namespace {

// The sanitizers are many times slower, and need memory of their own.
#if defined(TUTTI_SANITIZED)
constexpr int kCommunicators = 10;
constexpr std::size_t kMostBytes = std::size_t{16} << 20;
#else
constexpr int kCommunicators = 100;
constexpr std::size_t kMostBytes = std::size_t{1} << 20;
#endif
constexpr int kRanks = 8;

using Communicator = std::vector<ncclComm_t>;  // all its ranks

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

/// Of all threads.
std::chrono::duration<double> processor_time() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

void expect_sums(const Communicator& communicator, std::size_t count) {
  std::vector<std::vector<int>> values(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    values[rank].resize(count);
    std::iota(values[rank].begin(), values[rank].end(), rank);
  }
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int rank = 0; rank < kRanks; ++rank)
    ASSERT_EQ(ncclAllReduce(values[rank].data(), values[rank].data(), count, ncclInt, ncclSum,
                            communicator[rank], nullptr),
              ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  for (const std::vector<int>& sums : values)
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(sums[i], kRanks * (kRanks - 1) / 2 + kRanks * static_cast<int>(i));
}

class Many : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("TUTTI_DIRECT", "0", 1); }  // through staging memory
  void SetUp() override {
    for (Communicator& communicator : communicators_)
      ASSERT_EQ(ncclCommInitAll(communicator.data(), kRanks, nullptr), ncclSuccess)
          << ncclGetLastError(nullptr);
  }
  void TearDown() override {
    for (const Communicator& communicator : communicators_)
      for (ncclComm_t rank : communicator) EXPECT_EQ(ncclCommDestroy(rank), ncclSuccess);
  }

  [[nodiscard]] std::size_t resident_bytes_of_a_rank() const {
    const std::size_t now = resident_bytes();
    return now > resident_before_ ? (now - resident_before_) / (kCommunicators * kRanks) : 0;
  }

  const std::size_t resident_before_ = resident_bytes();
  std::vector<Communicator> communicators_{kCommunicators, Communicator(kRanks)};
};

TEST_F(Many, CommunicatorsThatAreIdleCostLittleMemoryAndNoTime) {
  EXPECT_LT(resident_bytes_of_a_rank(), kMostBytes);
  const auto before = processor_time();
  const std::chrono::duration<double> idle(1);
  std::this_thread::sleep_for(idle);
  EXPECT_LT(processor_time() - before, idle / 10);
}

TEST_F(Many, CommunicatorsWorkAndShareWhatTheyNeedInTurn) {
  for (const Communicator& communicator : communicators_) expect_sums(communicator, 64 << 10);
  EXPECT_LT(resident_bytes_of_a_rank(), kMostBytes);
}

}  // namespace
