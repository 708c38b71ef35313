// The C API's collectives with a count for each rank: ranks of one process, driven by one thread
// through groups, and from a thread each through streams.
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "nccl.h"
#include "tutti/communicator.hpp"
#include "tutti/tutti.h"

namespace {

using Counts = std::vector<std::size_t>;
using Buffer = std::vector<int>;

/// n communicators of one process, destroyed with the scope.
struct Ranks {
  explicit Ranks(int n) : comms(static_cast<std::size_t>(n)) {
    EXPECT_EQ(ncclCommInitAll(comms.data(), n, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
  }
  ~Ranks() {
    for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  std::vector<ncclComm_t> comms;
};

template <class Each>
ncclResult_t grouped(const Ranks& ranks, Each&& each) {
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  for (std::size_t rank = 0; rank < ranks.comms.size(); ++rank)
    EXPECT_EQ(each(rank), ncclSuccess) << ncclGetLastError(nullptr);
  return ncclGroupEnd();
}

std::size_t sum(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}
Counts starts_of(const Counts& counts) {
  Counts starts(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), std::size_t{0});
  return starts;
}

/// Element i of what `from` has for `to`.
int element(std::size_t from, std::size_t to, std::size_t i) {
  return static_cast<int>(100000 * (from + 1) + 1000 * to + i % 997);
}

class UnevenCalls : public testing::TestWithParam<int> {
 protected:
  const std::size_t n_ = static_cast<std::size_t>(GetParam());
  const Ranks ranks_{GetParam()};
  const std::uint64_t seed_ = std::random_device()();
  std::mt19937_64 random_{seed_};

  /// Some of them 0, one of them large.
  Counts random_counts() {
    Counts counts(n_);
    for (std::size_t& count : counts) count = random_() % 2 * (random_() % 500);
    counts[random_() % n_] += random_() % 40'000;
    return counts;
  }
};

TEST_P(UnevenCalls, GatherAndReduceScatterInAGroup) {
  SCOPED_TRACE("seed " + std::to_string(seed_));
  for (int round = 0; round < 8; ++round) {
    const Counts counts = random_counts(), starts = starts_of(counts);
    std::vector<Buffer> own(n_), all(n_, Buffer(sum(counts), -1)), sums(n_);
    for (std::size_t r = 0; r < n_; ++r) {
      sums[r].assign(counts[r], -1);
      for (std::size_t i = 0; i < counts[r]; ++i) own[r].push_back(element(r, r, i));
    }
    ASSERT_EQ(grouped(ranks_,
                      [&](std::size_t r) {
                        return tuttiAllGatherv(own[r].data(), counts[r], all[r].data(),
                                               counts.data(), nullptr, ncclInt, ranks_.comms[r],
                                               nullptr);
                      }),
              ncclSuccess)
        << ncclGetLastError(nullptr);
    for (std::size_t r = 0; r < n_; ++r)
      for (std::size_t from = 0; from < n_; ++from)
        for (std::size_t i = 0; i < counts[from]; ++i)
          ASSERT_EQ(all[r][starts[from] + i], element(from, from, i)) << r << " from " << from;
    ASSERT_EQ(grouped(ranks_,
                      [&](std::size_t r) {
                        return tuttiReduceScatterv(all[r].data(), counts.data(), starts.data(),
                                                   sums[r].data(), counts[r], ncclInt, ncclSum,
                                                   ranks_.comms[r], nullptr);
                      }),
              ncclSuccess)
        << ncclGetLastError(nullptr);
    for (std::size_t r = 0; r < n_; ++r)
      for (std::size_t i = 0; i < counts[r]; ++i)
        ASSERT_EQ(sums[r][i], static_cast<int>(n_) * element(r, r, i));
  }
}

TEST_P(UnevenCalls, ExchangeAllToAllBackwardsWithGaps) {
  SCOPED_TRACE("seed " + std::to_string(seed_));
  std::vector<Counts> sent(n_), received(n_, Counts(n_));
  for (std::size_t r = 0; r < n_; ++r) {
    sent[r] = random_counts();
    for (std::size_t to = 0; to < n_; ++to) received[to][r] = sent[r][to];
  }
  std::vector<Counts> places(n_, Counts(n_));
  std::vector<Buffer> in(n_), out(n_);
  for (std::size_t r = 0; r < n_; ++r) {
    for (std::size_t to = 0; to < n_; ++to)
      for (std::size_t i = 0; i < sent[r][to]; ++i) in[r].push_back(element(r, to, i));
    std::size_t next = 0;
    for (std::size_t from = n_; from-- > 0; next += received[r][from] + 3) places[r][from] = next;
    out[r].assign(next, -1);
  }
  ASSERT_EQ(grouped(ranks_,
                    [&](std::size_t r) {
                      return tuttiAllToAllv(in[r].data(), sent[r].data(), nullptr, out[r].data(),
                                            received[r].data(), places[r].data(), ncclInt,
                                            ranks_.comms[r], nullptr);
                    }),
            ncclSuccess)
      << ncclGetLastError(nullptr);
  for (std::size_t r = 0; r < n_; ++r) {
    Buffer wanted(out[r].size(), -1);
    for (std::size_t from = 0; from < n_; ++from)
      for (std::size_t i = 0; i < received[r][from]; ++i)
        wanted[places[r][from] + i] = element(from, r, i);
    ASSERT_EQ(out[r], wanted) << "rank " << r;
  }
}

TEST_P(UnevenCalls, RunOnStreamsInTheirOrder) {
  const Counts counts(n_, 7);
  std::vector<Buffer> own(n_), all(n_, Buffer(7 * n_)), sums(n_, Buffer(7));
  std::vector<tuttiStream_t> streams(n_);
  for (std::size_t r = 0; r < n_; ++r) {
    own[r].assign(7, static_cast<int>(r + 1));
    ASSERT_EQ(tuttiStreamCreate(&streams[r]), ncclSuccess);
    const auto stream = reinterpret_cast<cudaStream_t>(streams[r]);
    ASSERT_EQ(tuttiAllGatherv(own[r].data(), 7, all[r].data(), counts.data(), nullptr, ncclInt,
                              ranks_.comms[r], stream),
              ncclSuccess);
    ASSERT_EQ(tuttiReduceScatterv(all[r].data(), counts.data(), nullptr, sums[r].data(), 7, ncclInt,
                                  ncclMax, ranks_.comms[r], stream),
              ncclSuccess);
  }
  for (std::size_t r = 0; r < n_; ++r) {
    EXPECT_EQ(tuttiStreamSynchronize(streams[r]), ncclSuccess);
    EXPECT_EQ(tuttiStreamDestroy(streams[r]), ncclSuccess);
    EXPECT_EQ(sums[r], own[r]);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, UnevenCalls, testing::Values(1, 2, 3, 5, 8));

TEST(UnevenCallsOfTwo, ThatDoNotFitEachOtherEndInAnErrorThatShowsBoth) {
  Ranks ranks(2);
  Buffer data[2] = {Buffer(20), Buffer(20)}, out[2] = {Buffer(20), Buffer(20)};
  std::string texts[2];
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      const Counts sent{2, r == 0 ? std::size_t{0} : 3}, received{2, 3};
      EXPECT_NE(tuttiAllToAllv(data[r].data(), sent.data(), nullptr, out[r].data(), received.data(),
                               nullptr, ncclInt, ranks.comms[r], nullptr),
                ncclSuccess);
      texts[r] = ncclGetLastError(ranks.comms[r]);
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) {
    EXPECT_NE(text.find("count="), std::string::npos) << text;
    EXPECT_NE(text.find("send("), std::string::npos) << text;
    EXPECT_NE(text.find("recv("), std::string::npos) << text;
  }
}

TEST(UnevenCallsOfOne, SayWhichArgumentIsWrong) {
  Ranks ranks(1);
  Buffer data(8);
  ncclComm_t comm = ranks.comms[0];
  const std::size_t two = 2, huge = SIZE_MAX / 2, far = SIZE_MAX;
  const auto gather = [&](std::size_t count, const void* send, const std::size_t* counts,
                          const std::size_t* displs) {
    EXPECT_EQ(tuttiAllGatherv(send, count, data.data(), counts, displs, ncclInt, comm, nullptr),
              ncclInvalidArgument);
    return std::string(ncclGetLastError(comm));
  };
  const auto says = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(says(gather(2, data.data(), nullptr, nullptr), "recvcounts is NULL"));
  EXPECT_TRUE(says(gather(1, data.data(), &two, nullptr), "sendcount is 1"));
  EXPECT_TRUE(says(gather(2, nullptr, &two, nullptr), "sendbuff is NULL"));
  EXPECT_TRUE(says(gather(huge, data.data(), &huge, nullptr), "address space"));
  EXPECT_TRUE(says(gather(2, data.data(), &two, &far), "displacement"));
  EXPECT_EQ(tuttiAllToAllv(data.data(), &two, nullptr, data.data() + 1, &two, nullptr, ncclInt,
                           comm, nullptr),
            ncclInvalidArgument);
  EXPECT_TRUE(says(ncclGetLastError(comm), "overlaps"));
  // The communicator is as it was.
  EXPECT_EQ(tuttiAllGatherv(data.data(), 2, data.data() + 4, &two, nullptr, ncclInt, comm, nullptr),
            ncclSuccess);
}

TEST(UnevenCallsOfComm, TakeSpans) {
  auto comms = tutti::Comm::all(2);
  ASSERT_TRUE(comms);
  const Counts counts{1, 3};
  Buffer own[2] = {{10}, {20, 21, 22}}, all[2] = {Buffer(4), Buffer(4)},
         sums[2] = {Buffer(1), Buffer(3)};
  const auto run = [&](auto&& call) {
    tutti::Group group;
    for (std::size_t r = 0; r < 2; ++r) EXPECT_TRUE(call((*comms)[r], r));
    EXPECT_TRUE(group.end());
  };
  run([&](tutti::Comm& comm, std::size_t r) {
    return comm.all_gather_v<int>(own[r], all[r], counts);
  });
  EXPECT_EQ(all[0], (Buffer{10, 20, 21, 22}));
  EXPECT_EQ(all[1], all[0]);
  run([&](tutti::Comm& comm, std::size_t r) {
    return comm.reduce_scatter_v<int>(all[r], sums[r], counts);
  });
  EXPECT_EQ(sums[1], (Buffer{40, 42, 44}));
  const Counts sent[2] = {{0, 4}, {2, 2}}, received[2] = {{0, 2}, {4, 2}};
  Buffer got[2] = {Buffer(2), Buffer(6)};
  run([&](tutti::Comm& comm, std::size_t r) {
    return comm.all_to_all_v<int>(all[r], sent[r], got[r], received[r]);
  });
  EXPECT_EQ(got[0], (Buffer{10, 20}));
  EXPECT_EQ(got[1], (Buffer{10, 20, 21, 22, 21, 22}));
  EXPECT_FALSE((*comms)[0].all_gather_v<int>(own[0], all[0], Counts{1}));
}

}  // namespace
