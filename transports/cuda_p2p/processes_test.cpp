// Ranks in processes of their own. A child is this program once more (a process with threads cannot
// be forked for long): with RANKS in its environment it is those ranks, each on a thread, and ends
// before main. This process carries their all-gathers.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include <fcntl.h>
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
constexpr int kFirstFd = 100;  // a child's socket for rank r is this plus r

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
  Member(Rank rank, Rank ranks) : rank_(rank), ranks_(ranks) {}

  Result<std::vector<Blob>> gather(std::span<const std::byte> mine) const {
    const Deadline deadline = Deadline::after(kPatience);
    TUTTI_TRY(send_blob(kFirstFd + rank_, mine, deadline));
    std::vector<Blob> all;
    for (Rank rank = 0; rank < ranks_; ++rank) {
      TUTTI_ASSIGN(Blob blob, receive_blob(kFirstFd + rank_, deadline));
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
};

/// RANKS is "1,3 4": ranks 1 and 3 of 4. Whether all went well.
bool live(const std::string& ranks_text) {
  const cuda::FakeClient fake(variable("LIBRARY").c_str());
  const auto transport = make_cuda_p2p(fake.shared(), {.host_id = variable("HOST")});
  const auto space = ranks_text.find(' ');
  const Rank ranks = std::stoi(ranks_text.substr(space));
  std::vector<std::thread> threads;
  std::atomic<int> failures = 0;
  for (std::size_t at = 0; at < space; at += 2)
    threads.emplace_back([&, rank = ranks_text[at] - '0'] {
      const Status done = Member(rank, ranks).run(fake.shared(), *transport);
      if (done) return;
      std::fprintf(stderr, "rank %d: %s\n", rank, done.error().what.c_str());
      ++failures;
    });
  for (std::thread& thread : threads) thread.join();
  return failures == 0;
}

[[maybe_unused]] const bool kIsChild = [] {
  const std::string ranks = variable("RANKS");
  if (!ranks.empty()) ::_exit(live(ranks) ? 0 : 1);
  return false;
}();

struct ChildSettings {
  std::string ranks;  // "1,3"
  std::string host{};
};
struct JobSettings {
  std::vector<ChildSettings> children;
  std::string expected;  // what PeerMemory::describe says
  const char* library = FAKE_CUDA;
  const char* fabric = "0";
};

/// A child, and this process's ends of its ranks' sockets, by rank.
pid_t start(const JobSettings& job, const ChildSettings& child, Rank ranks, std::vector<Fd>& ends) {
  const std::string settings[] = {fmt::format("RANKS={} {}", child.ranks, ranks),
                                  "EXPECTED=" + job.expected,
                                  fmt::format("LIBRARY={}", job.library), "HOST=" + child.host,
                                  fmt::format("FAKE_CUDA_FABRIC={}", job.fabric)};
  std::vector<char*> environment;
  for (const std::string& setting : settings)
    environment.push_back(const_cast<char*>(setting.c_str()));
  environment.push_back(nullptr);
  char* arguments[] = {environment.front(), nullptr};
  std::vector<std::pair<Rank, Fd>> given;
  for (std::size_t at = 0; at < child.ranks.size(); at += 2) {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    const Rank rank = child.ranks[at] - '0';
    ends[rank] = Fd(pair[0]);
    given.emplace_back(rank, Fd(pair[1]));
  }
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  for (const auto& [rank, fd] : given) ::dup2(fd.get(), kFirstFd + rank);
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
  Rank ranks = 0;
  for (const ChildSettings& child : job.children)
    ranks += static_cast<Rank>((child.ranks.size() + 1) / 2);
  std::vector<Fd> ends(ranks);
  std::vector<pid_t> pids;
  for (const ChildSettings& child : job.children) pids.push_back(start(job, child, ranks, ends));
  carry_gathers(ends);
  ends.clear();
  for (const pid_t pid : pids) {
    int status = -1;
    ::waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

TEST(CudaP2pOfProcesses, PassesFileDescriptors) {
  expect_all_well({{{"0"}, {"1"}, {"2"}, {"3"}}, "3 peers by file descriptors"});
}

TEST(CudaP2pOfProcesses, ServesThreadsOfSeveralProcesses) {
  expect_all_well({{{"0,2"}, {"1,3"}}, "3 peers: 2 by file descriptors, 1 in this process"});
}

TEST(CudaP2pOfProcesses, JoinsHostsByTheFabric) {
  expect_all_well({.children = {{"0", "a"}, {"1", "b"}, {"2", "a"}},
                   .expected = "2 peers by fabric handles",
                   .fabric = "1"});
}

TEST(CudaP2pOfProcesses, OpensIpcHandlesWhereDevicesHaveNoOthers) {
  expect_all_well({.children = {{"0"}, {"1"}, {"2"}},
                   .expected = "2 peers by IPC handles",
                   .library = FAKE_CUDA_OLD});
}

TEST(CudaP2pOfProcesses, FallsBackForHostsThatNothingJoins) {
  expect_all_well({{{"0", "a"}, {"1", "b"}}, "nothing"});
}

}  // namespace
}  // namespace tutti::cuda_p2p
