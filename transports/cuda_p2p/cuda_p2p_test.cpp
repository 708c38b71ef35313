// Ranks that are threads of this process. Those of different process tokens take each other for
// other processes, and go the ways of those. processes_test.cpp has real ones.
#include "transports/cuda_p2p/cuda_p2p.hpp"

#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/bytes.hpp"
#include "src/base/log.hpp"
#include "src/wire/handshake.hpp"
#include "src/wire/local_socket.hpp"
#include "transports/cuda_p2p/offer.hpp"
#include "transports/cuda_p2p/test_ranks.hpp"

namespace tutti::cuda_p2p {
namespace {

using cuda::FakeClient;
using testing::HasSubstr;

constexpr std::size_t kBytes = 5000;
using Outcome = Result<std::unique_ptr<PeerMemory>>;

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
  /// Sees what every all-gather of rank 0 brings, before rank 0 does.
  std::function<void(std::vector<Blob>&)> look = [](auto&) {};
};

/// What all ranks of a job get, by rank.
std::vector<Outcome> share(const FakeClient& fake, const Job& job) {
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

bool all_null(const std::vector<Outcome>& outcomes) {
  return std::ranges::all_of(outcomes, [](const Outcome& one) { return one && *one == nullptr; });
}
bool all_memory(const std::vector<Outcome>& outcomes) {
  return std::ranges::all_of(outcomes, [](const Outcome& one) { return one && *one != nullptr; });
}

class CudaP2p : public testing::Test {
 protected:
  /// Every rank finds its area clear, and what each other rank stores there by its own address.
  void expect_shared(const std::vector<Outcome>& outcomes) const {
    ASSERT_TRUE(all_memory(outcomes));
    const auto ranks = static_cast<Rank>(outcomes.size());
    for (Rank reader = 0; reader < ranks; ++reader) {
      const auto areas = (*outcomes[reader])->areas();
      ASSERT_EQ(areas.size(), outcomes.size());
      for (std::size_t at = 0; at < kBytes; at += 4)
        ASSERT_EQ(get(*fake, areas[reader] + at), 0U) << "of rank " << reader << " at " << at;
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
  /// Null everywhere, and one line for each rank, which contains `words`.
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

/// On devices of before memory handles.
class OldCudaP2p : public CudaP2p {
 protected:
  OldCudaP2p() : CudaP2p(FAKE_CUDA_OLD) {}
};

const std::vector<Seat> kThreads{{.device = 0}, {.device = 1}, {.device = 2}, {.device = 3}};
const std::vector<Seat> kProcesses{
    {.device = 0, .process = 1}, {.device = 1, .process = 2}, {.device = 2, .process = 3}};

TEST_F(CudaP2p, JoinsThreadsOfOneProcess) {
  const auto outcomes = share(fake, {kThreads});
  expect_shared(outcomes);
  EXPECT_EQ((*outcomes[0])->describe(), "3 peers in this process");
}

TEST_F(CudaP2p, JoinsProcessesByFileDescriptors) {
  const auto outcomes = share(fake, {kProcesses});
  expect_shared(outcomes);
  EXPECT_EQ((*outcomes[0])->describe(), "2 peers by file descriptors");
}

TEST_F(CudaP2p, JoinsThreadsAndProcesses) {
  const auto outcomes = share(fake, {{{.device = 3, .process = 5},
                                      {.device = 1, .process = 6},
                                      {.device = 0, .process = 5},
                                      {.device = 2, .process = 6}}});
  expect_shared(outcomes);
  EXPECT_EQ((*outcomes[2])->describe(), "3 peers: 2 by file descriptors, 1 in this process");
}

TEST_F(CudaP2p, JoinsHostsByTheFabric) {
  ::setenv("FAKE_CUDA_FABRIC", "1", 1);  // NOLINT(concurrency-mt-unsafe)
  const auto outcomes = share(
      fake, {{{.device = 0, .process = 1, .host = "a"}, {.device = 1, .process = 2, .host = "b"}}});
  expect_shared(outcomes);
  EXPECT_EQ((*outcomes[0])->describe(), "1 peer by fabric handles");
}

TEST_F(CudaP2p, JoinsOneHostWhereTheFabricGivesNoHandles) {
  ::setenv("FAKE_CUDA_FABRIC", "1", 1);  // NOLINT(concurrency-mt-unsafe)
  fake.fail("cuMemExportToShareableHandle:1:800");
  const auto outcomes = share(fake, {kProcesses});  // one by descriptors, two for the fabric
  expect_shared(outcomes);
}

TEST_F(CudaP2p, FallsBackForHostsThatNoFabricJoins) {
  expect_fallback(
      {{{.device = 0, .process = 1, .host = "a"}, {.device = 1, .process = 2, .host = "b"}}},
      "rank 1 is not on the host of rank 0, whose GPU 0000:a0:00.0 has no memory "
      "handles for the fabric");
}

TEST_F(CudaP2p, FallsBackForRanksThatShareAGpu) {
  expect_fallback({{{.device = 0}, {.device = 1}, {.device = 0}}},
                  "ranks 0 and 2 share GPU 0000:a0:00.0");
}

TEST_F(CudaP2p, FallsBackForAreasOfDifferentSizes) {
  expect_fallback({{{.device = 0}, {.device = 1, .bytes = 8}}},
                  "rank 1 offers 8 bytes and rank 0 offers 5000");
}

TEST_F(CudaP2p, FallsBackForAnAreaThatIsTooLarge) {
  expect_fallback({{{.device = 0}, {.device = 1, .bytes = SIZE_MAX}}},
                  "rank 1: an area of 18446744073709551615 bytes: at most 1099511627776 can be");
}

TEST_F(CudaP2p, FallsBackForADeviceThatIsNotThere) {
  expect_fallback({{{.device = 0}, {.device = 9}}}, "rank 1: there is no CUDA device 9");
}

TEST_F(CudaP2p, FallsBackForGpusThatDoNotReachEachOther) {
  fake.peers(1);
  expect_fallback({kProcesses},
                  "rank 0: the driver lets GPU 0000:a0:00.0 not access GPU 0000:a1:00.0 of rank 1");
}

TEST_F(CudaP2p, FallsBackForCopiesThatHaveNoEnd) {
  fake.peers(2);
  expect_fallback({kProcesses, {.probe_deadline = std::chrono::milliseconds(200)}},
                  "rank 0: a copy of 64 bytes between GPU 0000:a0:00.0 of rank 0 and GPU "
                  "0000:a1:00.0 of rank 1 does not end: access control (ACS)");
}

TEST_F(CudaP2p, FallsBackForCopiesThatArriveWrong) {
  fake.peers(3);
  expect_fallback({kThreads},
                  "rank 0: what rank 1 stored arrived wrong between GPU 0000:a0:00.0 of rank 0 and "
                  "GPU 0000:a1:00.0 of rank 1");
}

TEST_F(OldCudaP2p, JoinsThreadsOfOneProcess) {
  const long before = fake.live("allocations");
  expect_shared(share(fake, {kThreads}));
  EXPECT_EQ(fake.live("allocations"), before);
}

TEST_F(OldCudaP2p, FallsBackForCopiesThatHaveNoEnd) {
  fake.peers(2);
  expect_fallback({kThreads, {.probe_deadline = std::chrono::milliseconds(200)}}, "does not end");
}

TEST_F(CudaP2p, GivesEverythingBackAtItsEnd) {
  ASSERT_TRUE(all_memory(share(fake, {kThreads})));  // contexts are there for good
  const long before = fake.live("*");
  ASSERT_TRUE(all_memory(share(fake, {kThreads})));
  ASSERT_TRUE(all_memory(share(fake, {kProcesses})));
  ASSERT_TRUE(all_null(share(fake, {{{.device = 0}, {.device = 0}}})));
  EXPECT_EQ(fake.live("*"), before);
}

TEST_F(CudaP2p, IsUsableByPeersAfterItsOwnerEnded) {
  for (const auto& seats : {kThreads, kProcesses}) {
    auto outcomes = share(fake, {seats});
    ASSERT_TRUE(all_memory(outcomes));
    std::byte* const of_first = (*outcomes[1])->areas()[0];
    (*outcomes[0]).reset();
    EXPECT_TRUE(put(*fake, of_first, 5));
    EXPECT_EQ(get(*fake, (*outcomes[2])->areas()[0]), 5U);
  }
}

TEST_F(CudaP2p, EndsAlikeOnAllRanksWhicheverCallFails) {
  for (const std::uint64_t process_of_other : {1, 2}) {
    const std::vector<Seat> seats{{.device = 0}, {.device = 1, .process = process_of_other}};
    fake.fail("");
    ASSERT_TRUE(all_memory(share(fake, {seats})));
    const long calls = fake.calls("*");
    long fallbacks = 0;
    for (long call = 1; call <= calls; ++call) {
      fake.fail("*:" + std::to_string(call));
      const auto outcomes = share(fake, {seats});
      fake.fail("");
      if (all_null(outcomes))
        ++fallbacks;
      else
        ASSERT_TRUE(all_memory(outcomes)) << "after call " << call;
    }
    EXPECT_GT(fallbacks, calls / 4);
  }
}

TEST_F(CudaP2p, IsAnErrorWhereTheControlPlaneFails) {
  for (int failing = 1; failing <= 4; ++failing) {
    int gathers = 0;
    const auto outcome = make_cuda_p2p(fake.shared())
                             ->share({.bytes = kBytes,
                                      .key = kKey,
                                      .all_gather = [&](auto mine) -> Result<std::vector<Blob>> {
                                        if (++gathers == failing)
                                          return make_error(Code::kTimeout, "the network is cut");
                                        return std::vector<Blob>{{mine.begin(), mine.end()}};
                                      },
                                      .deadline = Deadline::after(kPatience)});
    ASSERT_FALSE(outcome) << failing;
    EXPECT_EQ(outcome.error().what, "the network is cut");
  }
}

TEST_F(CudaP2p, FallsBackForWordsItDoesNotUnderstand) {
  for (int garbled = 1; garbled <= 4; ++garbled) {
    int gathers = 0;
    const auto outcomes = share(fake, {.seats = {{.device = 0}}, .look = [&](auto& blobs) {
                                         if (++gathers == garbled) blobs[0] = {std::byte{99}};
                                       }});
    EXPECT_TRUE(all_null(outcomes)) << garbled;
    EXPECT_EQ(gathers, garbled);
  }
}

/// Knocks at the listener of rank 0 before any rank does, and says something there.
class Stranger {
 public:
  explicit Stranger(std::function<void(int socket)> say) : say_(std::move(say)) {}
  ~Stranger() {
    if (speaker_.joinable()) speaker_.join();
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  /// For Job::look.
  void knock(const std::vector<Blob>& offers) {
    if (socket_) return;
    auto socket = dial_local(decode_offer(offers[0])->address.socket_name);
    ASSERT_TRUE(socket) << socket.error().what;
    socket_ = *std::move(socket);
    speaker_ = std::thread([this] { say_(socket_.get()); });
  }
  [[nodiscard]] bool has_knocked() const { return static_cast<bool>(socket_); }

 private:
  const std::function<void(int socket)> say_;
  Fd socket_;
  std::thread speaker_;
};

TEST_F(CudaP2p, LetsNoStrangerIn) {
  const std::function<void(int)> mistakes[] = {
      [](int socket) { ::shutdown(socket, SHUT_RDWR); },
      [](int socket) {
        const std::string words =
            "GET / HTTP/1.1, and more than a hello would have to say about who it is";
        EXPECT_TRUE(send_with_fd(socket, as_bytes(words), STDIN_FILENO));
      },
      [](int socket) {
        HandshakeOptions options;
        options.purpose = Purpose::kData;
        options.self = {.token = 2, .rank = 1, .group = 77};
        options.key = Key{std::byte{8}};
        EXPECT_FALSE(shake_hands(socket, options, Deadline::after(kPatience)));
      },
      [](int) {}};  // holds the others up for a while
  for (const auto& mistake : mistakes) {
    Stranger stranger(mistake);
    expect_shared(
        share(fake, {.seats = kProcesses, .look = [&](auto& blobs) { stranger.knock(blobs); }}));
    EXPECT_TRUE(stranger.has_knocked());
  }
}

TEST_F(CudaP2p, LetsNobodyInWhoClaimsAnotherRank) {
  Stranger stranger([](int socket) {
    HandshakeOptions options;
    options.purpose = Purpose::kData;
    options.self = {.token = 9, .rank = 1, .group = 77};
    options.key = kKey;
    EXPECT_TRUE(shake_hands(socket, options, Deadline::after(kPatience)));
    std::byte byte{};
    EXPECT_FALSE(receive_with_fd(socket, std::span(&byte, 1), 0, "a descriptor",
                                 Deadline::after(kPatience)));
  });
  expect_shared(
      share(fake, {.seats = kProcesses, .look = [&](auto& blobs) { stranger.knock(blobs); }}));
}

/// A rank of another process, which offers memory and then does nothing about it.
Result<std::unique_ptr<PeerMemory>> share_with_nobody(const FakeClient& fake,
                                                      const CudaP2pOptions& options,
                                                      Deadline deadline, bool answers) {
  int gathers = 0;
  const auto all_gather = [&](auto mine) -> Result<std::vector<Blob>> {
    const Blob own(mine.begin(), mine.end());
    if (gathers++ > 0)
      return answers ? Result(std::vector{own, encode_verdict("")})
                     : make_error(Code::kTimeout, "rank 1 did not come");
    auto offer = *decode_offer(mine);
    offer.uuid = "of another GPU";
    offer.process_token = 2;
    return std::vector{own, encode(offer)};
  };
  return make_cuda_p2p(fake.shared(), options)
      ->share({.ranks = 2,
               .bytes = kBytes,
               .process_token = 1,
               .key = kKey,
               .all_gather = all_gather,
               .deadline = deadline});
}

TEST_F(CudaP2p, GivesUpOnAPeerThatNeverComes) {
  const auto outcome = share_with_nobody(fake, {.swap_deadline = std::chrono::milliseconds(50)},
                                         Deadline::after(kPatience), true);
  ASSERT_TRUE(outcome) << outcome.error().what;
  EXPECT_EQ(*outcome, nullptr);
}

TEST_F(CudaP2p, EndsAtTheDeadlineOfTheRequest) {
  const auto outcome =
      share_with_nobody(fake, {}, Deadline::after(std::chrono::milliseconds(300)), false);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::kTimeout);
}

}  // namespace
}  // namespace tutti::cuda_p2p
