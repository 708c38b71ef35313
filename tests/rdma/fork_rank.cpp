// A rank that forks while its collectives run. Its children overwrite their copies of the
// registered buffers and end; one becomes another program, and one outlives the communicator. Every
// result must be right, and the other program must get no descriptor of the library's.
//
//   fork_rank                under a launcher
//   fork_rank DESCRIPTORS    the other program: fails if it has more of them
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl.h"
#include "tutti/tutti.h"

namespace {

constexpr std::size_t kCount = 256 << 10;
constexpr std::size_t kBytes = kCount * sizeof(float);
constexpr int kForks = 20;
constexpr int kRounds = 40;

void check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, ncclGetLastError(nullptr));
  std::exit(1);
}

/// What they are, as in "socket:[1234]".
std::vector<std::string> open_descriptors() {
  std::vector<std::string> open;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    open.push_back(std::filesystem::read_symlink(entry.path()));
  return open;
}

/// The other program: 0 if no more are open than `expected`.
int compare_descriptors(std::size_t expected) {
  const auto open = open_descriptors();
  if (open.size() <= expected) return 0;
  for (const std::string& each : open)
    std::fprintf(stderr, "passed on to another program: %s\n", each.c_str());
  return 1;
}

/// Memory of this process alone, which the communicator has registered.
std::span<float> registered_buffer(ncclComm_t comm) {
  void* const memory =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  void* handle = nullptr;
  check(ncclCommRegister(comm, memory, kBytes, &handle), "ncclCommRegister");
  return {static_cast<float*>(memory), kCount};
}

/// What a child does: only calls that are safe in the child of a process with threads.
struct Child {
  std::vector<std::span<float>> buffers;
  std::string descriptors;  // argument of the other program
  int waits_for = -1;       // the reading end of a pipe

  [[noreturn]] void scribble(bool lingers) const {
    for (const auto& buffer : buffers) std::memset(buffer.data(), 0xff, buffer.size_bytes());
    char byte = 0;
    while (lingers && ::read(waits_for, &byte, 1) > 0) {
    }
    ::_exit(0);
  }
  [[noreturn]] void become_another_program() const {
    ::execl("/proc/self/exe", "fork_rank", descriptors.c_str(), nullptr);
    ::_exit(2);
  }
};

void expect_success(pid_t child, const char* what) {
  int status = 0;
  if (child > 0 && ::waitpid(child, &status, 0) == child && status == 0) return;
  std::fprintf(stderr, "%s failed: status %d\n", what, status);
  std::exit(1);
}

void fork_often(const Child& child, std::atomic<int>& forks) {
  for (; forks < kForks; ++forks) {
    const bool other = forks == kForks / 2;
    const pid_t pid = ::fork();
    if (pid == 0 && other) child.become_another_program();
    if (pid == 0) child.scribble(false);
    expect_success(pid, other ? "the other program" : "a child");
  }
}

int wrong_elements(std::span<const float> sums, int ranks, int round) {
  int wrong = 0;
  for (std::size_t i = 0; i < sums.size(); ++i)
    wrong += sums[i] != static_cast<float>(ranks * (round + static_cast<int>(i % 7)) +
                                           ranks * (ranks - 1) / 2);
  return wrong;
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1) return compare_descriptors(std::stoul(arguments[1]));
  const std::size_t descriptors = open_descriptors().size();

  ncclComm_t comm = nullptr;
  int rank = 0, ranks = 0, pipe[2];
  check(tuttiCommInitFromEnvironment(&comm, nullptr, 0), "tuttiCommInitFromEnvironment");
  check(ncclCommUserRank(comm, &rank), "ncclCommUserRank");
  check(ncclCommCount(comm, &ranks), "ncclCommCount");
  const std::span<float> send = registered_buffer(comm);
  const std::span<float> receive = registered_buffer(comm);
  if (::pipe2(pipe, O_CLOEXEC) != 0) std::abort();
  const Child child{{send, receive}, std::to_string(descriptors), pipe[0]};

  const pid_t lingering = ::fork();
  if (lingering == 0) {
    ::close(pipe[1]);
    child.scribble(true);
  }
  std::atomic<int> forks = 0;
  std::thread forker([&] { fork_often(child, forks); });
  int rounds = 0, wrong = 0;
  for (int more = 1; more != 0; ++rounds) {
    for (std::size_t i = 0; i < kCount; ++i)
      send[i] = static_cast<float>(rank + rounds + static_cast<int>(i % 7));
    check(ncclAllReduce(send.data(), receive.data(), kCount, ncclFloat, ncclSum, comm, nullptr),
          "ncclAllReduce");
    wrong += wrong_elements(receive, ranks, rounds);
    more = rounds < kRounds || forks < kForks ? 1 : 0;
    check(ncclAllReduce(&more, &more, 1, ncclInt, ncclMax, comm, nullptr), "ncclAllReduce");
  }
  forker.join();
  check(ncclCommDestroy(comm), "ncclCommDestroy");
  ::close(pipe[1]);
  expect_success(lingering, "the child that outlives the communicator");
  std::printf("rank %d: %d all-reduces during %d forks, %d wrong\n", rank, rounds, kForks, wrong);
  return wrong == 0 ? 0 : 1;
}
