// Calls on GPU buffers: ranks of one process that share one GPU, or have one each.
#include <memory>
#include <ostream>
#include <vector>

#include "tests/cuda/ranks.hpp"

namespace tutti::testing_cuda {
namespace {

constexpr int kHardwareQueues = 4;  // of the driver in memory

struct Case {
  int ranks;
  std::size_t count;
  bool threads;
  Gpus gpus = Gpus::kShared;
};

void PrintTo(const Case& it, std::ostream* out) {
  *out << it.ranks << " ranks, " << it.count << " elements, "
       << (it.threads ? "a thread each" : "one thread")
       << (it.gpus == Gpus::kOwn ? ", a GPU each" : "");
}

class CudaCalls : public testing::TestWithParam<Case> {
 protected:
  const Case case_ = GetParam();
  const int n_ = case_.ranks;
  const std::size_t count_ = case_.count, all_ = count_ * n_;
  const Ranks ranks_{n_, case_.gpus};

  [[nodiscard]] cudaStream_t stream(int rank) const { return ranks_.streams[rank]->get(); }
  [[nodiscard]] int gpu(int rank) const { return ranks_.devices[rank]; }
  void run(const std::function<void(int)>& each) const { ranks_.run(case_.threads, each); }
};

TEST_P(CudaCalls, AllReduceAddsUpOutOfPlaceAndInPlace) {
  std::vector<Buffer<float>> in, out;
  for (int rank = 0; rank < n_; ++rank) {
    in.emplace_back(inputs(rank, count_), gpu(rank));
    out.emplace_back(count_, gpu(rank));
  }
  run([&](int r) {
    EXPECT_EQ(ncclAllReduce(in[r].data(), out[r].data(), count_, ncclFloat, ncclSum,
                            ranks_.comms[r], stream(r)),
              ncclSuccess);
  });
  run([&](int r) {
    EXPECT_EQ(ncclAllReduce(in[r].data(), in[r].data(), count_, ncclFloat, ncclSum, ranks_.comms[r],
                            stream(r)),
              ncclSuccess);
  });
  for (int r = 0; r < n_; ++r) {
    const std::vector<float> sums = out[r].read(stream(r));
    for (std::size_t i = 0; i < count_; ++i) ASSERT_EQ(sums[i], sum(n_, i)) << i;
    EXPECT_EQ(in[r].read(stream(r)), sums);
  }
}

TEST_P(CudaCalls, GatherScatterAndAllToAllPutBlocksInTheirPlaces) {
  std::vector<Buffer<float>> own, gathered, scattered, exchanged;
  for (int rank = 0; rank < n_; ++rank) {
    own.emplace_back(inputs(rank, count_), gpu(rank));
    gathered.emplace_back(all_, gpu(rank));
    scattered.emplace_back(count_, gpu(rank));
    exchanged.emplace_back(all_, gpu(rank));
  }
  run([&](int r) {
    EXPECT_EQ(ncclAllGather(own[r].data(), gathered[r].data(), count_, ncclFloat, ranks_.comms[r],
                            stream(r)),
              ncclSuccess);
  });
  run([&](int r) {
    EXPECT_EQ(ncclReduceScatter(gathered[r].data(), scattered[r].data(), count_, ncclFloat, ncclSum,
                                ranks_.comms[r], stream(r)),
              ncclSuccess);
  });
  run([&](int r) {
    EXPECT_EQ(ncclAlltoAll(gathered[r].data(), exchanged[r].data(), count_, ncclFloat,
                           ranks_.comms[r], stream(r)),
              ncclSuccess);
  });
  for (int r = 0; r < n_; ++r) {
    const auto all = gathered[r].read(stream(r)), part = scattered[r].read(stream(r)),
               theirs = exchanged[r].read(stream(r));
    for (int block = 0; block < n_; ++block)
      for (std::size_t i = 0; i < count_; ++i) {
        ASSERT_EQ(all[block * count_ + i], input(block, i));
        ASSERT_EQ(theirs[block * count_ + i], input(r, i));
      }
    for (std::size_t i = 0; i < count_; ++i)
      ASSERT_EQ(part[i], static_cast<float>(n_) * input(r, i));
  }
}

TEST_P(CudaCalls, RootsGiveAndTake) {
  const int root = n_ - 1;
  std::vector<Buffer<float>> own, told, collected, dealt;
  for (int rank = 0; rank < n_; ++rank) {
    own.emplace_back(inputs(rank, count_), gpu(rank));
    told.emplace_back(count_, gpu(rank));
    collected.emplace_back(all_, gpu(rank));
    dealt.emplace_back(count_, gpu(rank));
  }
  run([&](int r) {
    EXPECT_EQ(ncclBroadcast(own[r].data(), told[r].data(), count_, ncclFloat, root, ranks_.comms[r],
                            stream(r)),
              ncclSuccess);
  });
  run([&](int r) {
    EXPECT_EQ(ncclGather(own[r].data(), collected[r].data(), count_, ncclFloat, root,
                         ranks_.comms[r], stream(r)),
              ncclSuccess);
  });
  run([&](int r) {
    EXPECT_EQ(ncclScatter(collected[r].data(), dealt[r].data(), count_, ncclFloat, root,
                          ranks_.comms[r], stream(r)),
              ncclSuccess);
  });
  run([&](int r) {
    EXPECT_EQ(ncclReduce(own[r].data(), r == root ? collected[r].data() : nullptr, count_,
                         ncclFloat, ncclMax, root, ranks_.comms[r], stream(r)),
              ncclSuccess);
  });
  for (int r = 0; r < n_; ++r) {
    EXPECT_EQ(told[r].read(stream(r)), inputs(root, count_));
    EXPECT_EQ(dealt[r].read(stream(r)), inputs(r, count_));
  }
  const auto largest = collected[root].read(stream(root));
  for (std::size_t i = 0; i < count_; ++i) ASSERT_EQ(largest[i], input(n_ - 1, i));
}

TEST_P(CudaCalls, MessagesGoAroundARing) {
  std::vector<Buffer<float>> own, theirs;
  for (int rank = 0; rank < n_; ++rank) {
    own.emplace_back(inputs(rank, count_), gpu(rank));
    theirs.emplace_back(count_, gpu(rank));
  }
  run([&](int r) {
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclSend(own[r].data(), count_, ncclFloat, (r + 1) % n_, ranks_.comms[r], stream(r)),
              ncclSuccess);
    EXPECT_EQ(ncclRecv(theirs[r].data(), count_, ncclFloat, (r + n_ - 1) % n_, ranks_.comms[r],
                       stream(r)),
              ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  });
  for (int r = 0; r < n_; ++r)
    EXPECT_EQ(theirs[r].read(stream(r)), inputs((r + n_ - 1) % n_, count_));
}

/// What comes before in the stream is seen by the call, and what comes behind sees its result.
TEST_P(CudaCalls, KeepTheOrderOfTheirStreams) {
  std::vector<Buffer<float>> data;
  std::vector<std::vector<float>> given;
  for (int rank = 0; rank < n_; ++rank) {
    data.emplace_back(count_, gpu(rank));
    given.push_back(inputs(rank, count_));
  }
  constexpr int kRounds = 3;
  for (int round = 0; round < kRounds; ++round) {
    for (int r = 0; r < n_; ++r) data[r].write(given[r], stream(r));
    for (int call = 0; call < 2; ++call)
      run([&](int r) {
        EXPECT_EQ(ncclAllReduce(data[r].data(), data[r].data(), count_, ncclFloat,
                                call == 0 ? ncclSum : ncclMax, ranks_.comms[r], stream(r)),
                  ncclSuccess);
      });
  }
  for (int r = 0; r < n_; ++r) {
    const auto sums = data[r].read(stream(r));
    for (std::size_t i = 0; i < count_; ++i) ASSERT_EQ(sums[i], sum(n_, i));
  }
}

TEST_P(CudaCalls, AllGoToTheDefaultStream) {
  std::vector<Buffer<float>> data;
  for (int rank = 0; rank < n_; ++rank) data.emplace_back(inputs(rank, count_), gpu(rank));
  run([&](int r) {
    const auto scope = must(driver()->make_current(gpu(r)));
    EXPECT_EQ(ncclAllReduce(data[r].data(), data[r].data(), count_, ncclFloat, ncclSum,
                            ranks_.comms[r], nullptr),
              ncclSuccess);
  });
  for (int r = 0; r < n_; ++r) {
    const auto sums = data[r].read(nullptr);
    for (std::size_t i = 0; i < count_; ++i) ASSERT_EQ(sums[i], sum(n_, i));
  }
}

TEST_P(CudaCalls, AreReplayedByGraphs) {
  if (n_ > kHardwareQueues) GTEST_SKIP() << "replays cannot line up: a queue for each, or a hang";
  std::vector<Buffer<float>> in, out;
  std::vector<std::unique_ptr<Graph>> graphs;
  for (int rank = 0; rank < n_; ++rank) {
    in.emplace_back(count_, gpu(rank));
    out.emplace_back(count_, gpu(rank));
  }
  for (int r = 0; r < n_; ++r)
    graphs.push_back(std::make_unique<Graph>(stream(r), [&] {
      for (int call = 0; call < 2; ++call)
        EXPECT_EQ(ncclAllReduce(in[r].data(), out[r].data(), count_, ncclFloat, ncclSum,
                                ranks_.comms[r], stream(r)),
                  ncclSuccess)
            << ncclGetLastError(nullptr);
    }));
  for (int replay = 0; replay < 4; ++replay) {
    std::vector<std::vector<float>> given;
    for (int r = 0; r < n_; ++r) given.push_back(inputs(r + replay, count_));
    for (int r = 0; r < n_; ++r) in[r].write(given[r], stream(r));
    for (int r = 0; r < n_; ++r) graphs[r]->launch(stream(r));
    for (int r = 0; r < n_; ++r) {
      const auto sums = out[r].read(stream(r));
      for (std::size_t i = 0; i < count_; ++i)
        ASSERT_EQ(sums[i], sum(n_ + replay, i) - sum(replay, i)) << "replay " << replay;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, CudaCalls,
    testing::Values(Case{1, kFewElements, false}, Case{2, 1, false}, Case{2, kFewElements, true},
                    Case{3, 0, true}, Case{2, kSeveralSteps, false}, Case{4, kSeveralSteps, true},
                    Case{8, kFewElements, true}, Case{16, kFewElements, false},
                    Case{2, 1, false, Gpus::kOwn}, Case{3, kFewElements, true, Gpus::kOwn},
                    Case{2, kSeveralSteps, false, Gpus::kOwn},
                    Case{4, kSeveralSteps, true, Gpus::kOwn}));

}  // namespace
}  // namespace tutti::testing_cuda
