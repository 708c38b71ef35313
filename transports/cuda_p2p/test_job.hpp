// Jobs for tests, whose ranks are threads of this process. Ranks with different process tokens
// treat each other as other processes.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "transports/cuda_p2p/cuda_p2p.hpp"
#include "transports/cuda_p2p/test_ranks.hpp"

namespace tutti::cuda_p2p {

using cuda::FakeClient;
using ::testing::HasSubstr;

inline constexpr std::size_t kBytes = 5000;
using Outcome = Result<std::unique_ptr<PeerMemory>>;

/// An all-gather for ranks that are threads.
class Gathering {
 public:
  explicit Gathering(std::size_t ranks) : coming_(ranks) {}

  Result<std::vector<Blob>> gather(Rank rank, std::span<const std::byte> mine, Deadline deadline) {
    std::unique_lock lock(mutex_);
    const std::uint64_t round = round_;
    coming_[rank].assign(mine.begin(), mine.end());
    if (++arrived_ == coming_.size()) {
      gathered_ = coming_;
      arrived_ = 0;
      ++round_;
      complete_.notify_all();
    }
    while (round_ == round)
      if (deadline.passed())
        return make_error(Code::kTimeout, "a rank did not come");
      else
        complete_.wait_for(lock, deadline.nap(std::chrono::milliseconds(100)));
    return gathered_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable complete_;
  std::vector<Blob> coming_;
  std::vector<Blob> gathered_;
  std::size_t arrived_ = 0;
  std::uint64_t round_ = 0;
};

/// A rank of a job.
struct Seat {
  int device = 0;
  std::uint64_t process = 1;
  std::string host{};  // "": this one
  std::size_t bytes = kBytes;
};

struct Job {
  std::vector<Seat> seats;
  CudaP2pOptions options{};
  Nanos patience = kPatience;
  /// Sees rank 0's contribution to every all-gather before it is sent.
  std::function<void(std::span<const std::byte>)> listen = [](auto) {};
  /// Sees the result of rank 0's every all-gather before rank 0 does, and may change it.
  std::function<void(std::vector<Blob>&)> look = [](auto&) {};
};

/// The results of all ranks of a job, by rank.
inline std::vector<Outcome> share(const FakeClient& fake, const Job& job) {
  const auto ranks = static_cast<Rank>(job.seats.size());
  std::map<std::uint64_t, std::unique_ptr<PeerMemoryTransport>> processes;
  for (const Seat& seat : job.seats) {
    CudaP2pOptions options = job.options;
    options.host_id = seat.host;
    processes.try_emplace(seat.process, make_cuda_p2p(fake.shared(), options));
  }
  Gathering gathering(job.seats.size());
  std::vector<Outcome> outcomes;
  for (Rank rank = 0; rank < ranks; ++rank) outcomes.emplace_back(nullptr);
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const Seat& seat = job.seats[rank];
      const Deadline deadline = Deadline::after(job.patience);
      const auto all_gather = [&](std::span<const std::byte> mine) -> Result<std::vector<Blob>> {
        if (rank == 0) job.listen(mine);
        TUTTI_ASSIGN(auto all, gathering.gather(rank, mine, deadline));
        if (rank == 0) job.look(all);
        return all;
      };
      outcomes[rank] = processes.at(seat.process)
                           ->share({.rank = rank,
                                    .ranks = ranks,
                                    .device = seat.device,
                                    .bytes = seat.bytes,
                                    .process_token = seat.process,
                                    .communicator = 77,
                                    .key = kKey,
                                    .all_gather = all_gather,
                                    .deadline = deadline});
    });
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

inline bool all_null(const std::vector<Outcome>& outcomes) {
  return std::ranges::all_of(outcomes, [](const Outcome& one) { return one && *one == nullptr; });
}
inline bool all_memory(const std::vector<Outcome>& outcomes) {
  return std::ranges::all_of(outcomes, [](const Outcome& one) { return one && *one != nullptr; });
}

/// Runs on the fake driver.
class CudaP2p : public testing::Test {
 protected:
  /// Checks that every rank finds its area zeroed, and what each other rank stores there by its own
  /// address.
  void expect_shared(const std::vector<Outcome>& outcomes) const {
    ASSERT_TRUE(all_memory(outcomes));
    const auto ranks = static_cast<Rank>(outcomes.size());
    for (Rank reader = 0; reader < ranks; ++reader) {
      const auto areas = (*outcomes[reader])->areas();
      ASSERT_EQ(areas.size(), outcomes.size());
      std::vector<std::byte> found(kBytes, std::byte{1});
      ASSERT_TRUE(fake->copy_async(found.data(), areas[reader], kBytes, nullptr));
      ASSERT_TRUE(fake->synchronize(nullptr));
      EXPECT_EQ(std::ranges::count(found, std::byte{0}), std::ssize(found));
    }
    for (Rank writer = 0; writer < ranks; ++writer)
      for (Rank reader = 0; reader < ranks; ++reader)
        ASSERT_TRUE(put(*fake, (*outcomes[writer])->areas()[reader] + place_of(writer),
                        word_for(writer, reader)));
    for (Rank reader = 0; reader < ranks; ++reader)
      for (Rank writer = 0; writer < ranks; ++writer)
        EXPECT_EQ(get(*fake, (*outcomes[reader])->areas()[reader] + place_of(writer)),
                  word_for(writer, reader));
  }
  /// Checks that every rank gets null, and that one line per rank contains `words`.
  void expect_fallback(const Job& job, const std::string& words) const {
    testing::internal::CaptureStderr();
    const auto outcomes = share(fake, job);
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(all_null(outcomes));
    EXPECT_EQ(std::ranges::count(log, '\n'), std::ssize(job.seats)) << log;
    EXPECT_THAT(log, HasSubstr("calls pass through host memory instead: "));
    EXPECT_THAT(log, HasSubstr(words));
  }

  explicit CudaP2p(const char* library = FAKE_CUDA) : fake(library) {
    ::setenv("TUTTI_DEBUG", "INFO", 1);  // NOLINT(concurrency-mt-unsafe)
    reset_log();
  }
  ~CudaP2p() override {
    fake.fail("");
    fake.peers(0);
    ::unsetenv("FAKE_CUDA_FABRIC");  // NOLINT(concurrency-mt-unsafe)
  }
  FakeClient fake;
  cuda::ContextScope scope = *fake->make_current(0);
};

inline const std::vector<Seat> kThreads{{.device = 0}, {.device = 1}, {.device = 2}, {.device = 3}};
inline const std::vector<Seat> kProcesses{
    {.device = 0, .process = 1}, {.device = 1, .process = 2}, {.device = 2, .process = 3}};

}  // namespace tutti::cuda_p2p
