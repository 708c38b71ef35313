// Ranks in processes of their own. A child is this program once more (a process with threads cannot
// be forked for long): with RANKS in its environment it is those ranks, each on a thread, and ends
// before main. This process carries their all-gathers.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/wire/net.hpp"
#include "transports/cuda_p2p/cuda_p2p.hpp"
#include "transports/cuda_p2p/test_ranks.hpp"

namespace tutti::cuda_p2p {
namespace {

constexpr std::size_t kBytes = std::size_t{3} << 20;

Status send_blob(int socket, std::span<const std::byte> blob, Deadline deadline) {
  const std::uint64_t size = blob.size();
  TUTTI_TRY(send_all(socket, std::as_bytes(std::span(&size, 1)), deadline));
  return send_all(socket, blob, deadline);
}

Result<Blob> receive_blob(int socket, Deadline deadline) {
  std::uint64_t size = 0;
  TUTTI_TRY(recv_all(socket, std::as_writable_bytes(std::span(&size, 1)), deadline));
  Blob blob(size);
  TUTTI_TRY(recv_all(socket, blob, deadline));
  return blob;
}

std::string variable(const char* name) {
  const char* const text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? "" : text;
}

/// A rank of a child.
class Member {
 public:
  /// `socket`: to this program, which gathers.
  Member(Rank rank, Rank ranks, int socket) : rank_(rank), ranks_(ranks), socket_(socket) {}

  Result<std::vector<Blob>> gather(std::span<const std::byte> mine) const {
    const Deadline deadline = Deadline::after(kPatience);
    TUTTI_TRY(send_blob(socket_, mine, deadline));
    std::vector<Blob> all;
    for (Rank rank = 0; rank < ranks_; ++rank) {
      TUTTI_ASSIGN(Blob blob, receive_blob(socket_, deadline));
      all.push_back(std::move(blob));
    }
    return all;
  }
  [[nodiscard]] Status barrier() const {
    TUTTI_TRY(gather({}));
    return ok_status();
  }

  Status run(const cuda::SharedDriver& driver, PeerMemoryTransport& transport) const {
    TUTTI_ASSIGN(const auto scope, driver->make_current(rank_));
    TUTTI_ASSIGN(auto memory,
                 transport.share({.rank = rank_,
                                  .ranks = ranks_,
                                  .device = rank_,
                                  .bytes = kBytes,
                                  .process_token = static_cast<std::uint64_t>(::getpid()),
                                  .communicator = 5,
                                  .key = kKey,
                                  .all_gather = [this](auto mine) { return gather(mine); },
                                  .deadline = Deadline::after(kPatience)}));
    const std::string expected = variable("EXPECTED");
    const std::string got = memory ? memory->describe() : "nothing";
    TUTTI_CHECK(got == expected, "{} where {} is expected", got, expected);
    if (!memory) return ok_status();
    for (Rank peer = 0; peer < ranks_; ++peer)
      TUTTI_CHECK(put(*driver, memory->areas()[peer] + place_of(rank_), word_for(rank_, peer)),
                  "cannot store in the area of rank {}", peer);
    TUTTI_TRY(barrier());
    for (Rank peer = 0; peer < ranks_; ++peer) {
      const std::uint32_t word = get(*driver, memory->areas()[rank_] + place_of(peer));
      TUTTI_CHECK(word == word_for(peer, rank_), "{} of rank {}", word, peer);
    }
    TUTTI_TRY(barrier());
    return outlive(driver, std::move(memory));
  }

 private:
  /// Rank 0 ends its memory first. The others go on to use it.
  Status outlive(const cuda::SharedDriver& driver, std::unique_ptr<PeerMemory> memory) const {
    if (rank_ == 0) memory.reset();
    TUTTI_TRY(barrier());
    if (rank_ == 1) TUTTI_CHECK(put(*driver, memory->areas()[0], 9), "cannot store");
    TUTTI_TRY(barrier());
    if (rank_ > 1) TUTTI_CHECK(get(*driver, memory->areas()[0]) == 9, "cannot load");
    return barrier();
  }

  const Rank rank_;
  const Rank ranks_;
  const int socket_;
};

/// RANKS is "1 3", those of this child, and SOCKETS "20 25", theirs. Whether all went well.
bool live(const std::string& ranks) {
  const cuda::FakeClient fake(variable("LIBRARY").c_str());
  const auto transport = make_cuda_p2p(fake.shared(), {.host_id = variable("HOST")});
  const Rank size = std::stoi(variable("SIZE"));
  std::istringstream own(ranks);
  std::istringstream sockets(variable("SOCKETS"));
  std::vector<std::thread> threads;
  std::atomic<int> failures = 0;
  Rank rank = 0;
  int socket = -1;
  while (own >> rank && sockets >> socket)
    threads.emplace_back([&, member = Member(rank, size, socket), rank] {
      const Status done = member.run(fake.shared(), *transport);
      if (done) return;
      std::fprintf(stderr, "rank %d: %s\n", rank, done.error().what.c_str());
      ++failures;
    });
  for (std::thread& thread : threads) thread.join();
  return failures == 0 && !threads.empty();
}

[[maybe_unused]] const bool kIsChild = [] {
  const std::string ranks = variable("RANKS");
  if (!ranks.empty()) ::_exit(live(ranks) ? 0 : 1);
  return false;
}();

struct ChildSettings {
  std::vector<Rank> ranks;
  std::string host{};
};
struct JobSettings {
  std::vector<ChildSettings> children;
  std::string expected;  // what PeerMemory::describe says
  const char* library = FAKE_CUDA;
  const char* fabric = "0";
};

/// A child. Puts this process's ends of its ranks' sockets into `ends`, by rank.
pid_t start(const JobSettings& job, const ChildSettings& child, std::vector<Fd>& ends) {
  std::vector<Fd> given;
  std::vector<int> numbers;
  for (const Rank rank : child.ranks) {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    ends[rank] = Fd(pair[0]);
    given.emplace_back(pair[1]);
    numbers.push_back(pair[1]);
  }
  const std::string settings[] = {fmt::format("RANKS={}", fmt::join(child.ranks, " ")),
                                  fmt::format("SOCKETS={}", fmt::join(numbers, " ")),
                                  fmt::format("SIZE={}", ends.size()),
                                  "EXPECTED=" + job.expected,
                                  fmt::format("LIBRARY={}", job.library),
                                  "HOST=" + child.host,
                                  fmt::format("FAKE_CUDA_FABRIC={}", job.fabric)};
  std::vector<char*> environment;
  for (const std::string& setting : settings)
    environment.push_back(const_cast<char*>(setting.c_str()));
  environment.push_back(nullptr);
  char* arguments[] = {environment.front(), nullptr};
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  for (const int number : numbers) ::fcntl(number, F_SETFD, 0);
  ::execve("/proc/self/exe", arguments, environment.data());
  ::_exit(127);
}

/// Until a child ends.
void carry_gathers(const std::vector<Fd>& ends) {
  const Deadline deadline = Deadline::after(3 * kPatience);
  for (;;) {
    std::vector<Blob> all;
    for (const Fd& end : ends) {
      auto blob = receive_blob(end.get(), deadline);
      if (!blob) return;
      all.push_back(*std::move(blob));
    }
    for (const Fd& end : ends)
      for (const Blob& blob : all)
        if (!send_blob(end.get(), blob, deadline)) return;
  }
}

void expect_all_well(const JobSettings& job) {
  std::size_t ranks = 0;
  for (const ChildSettings& child : job.children) ranks += child.ranks.size();
  std::vector<Fd> ends(ranks);
  std::vector<pid_t> pids;
  for (const ChildSettings& child : job.children) pids.push_back(start(job, child, ends));
  carry_gathers(ends);
  ends.clear();
  for (const pid_t pid : pids) {
    int status = -1;
    ::waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

TEST(CudaP2pOfProcesses, PassesFileDescriptors) {
  expect_all_well({{{{0}}, {{1}}, {{2}}, {{3}}}, "3 peers by file descriptors"});
}

TEST(CudaP2pOfProcesses, ServesThreadsOfSeveralProcesses) {
  expect_all_well({{{{0, 2}}, {{1, 3}}}, "3 peers: 2 by file descriptors, 1 in this process"});
}

TEST(CudaP2pOfProcesses, JoinsHostsByTheFabric) {
  expect_all_well({.children = {{{0}, "a"}, {{1}, "b"}, {{2}, "a"}},
                   .expected = "2 peers by fabric handles",
                   .fabric = "1"});
}

TEST(CudaP2pOfProcesses, OpensIpcHandlesWhereDevicesHaveNoOthers) {
  expect_all_well({.children = {{{0}}, {{1}}, {{2}}},
                   .expected = "2 peers by IPC handles",
                   .library = FAKE_CUDA_OLD});
}

TEST(CudaP2pOfProcesses, FallsBackForHostsThatNothingJoins) {
  expect_all_well({{{{0}, "a"}, {{1}, "b"}}, "nothing"});
}

}  // namespace
}  // namespace tutti::cuda_p2p
