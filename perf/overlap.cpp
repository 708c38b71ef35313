// How much of an all-reduce on a tutti::Stream hides behind arithmetic of the caller.
//
//   tutti run -n 2 -- build/release/bin/overlap [SIZE...]       # bytes; 64K to 64M unless given
//   TUTTI_SHM=0 tutti run -n 2 -- build/release/bin/overlap     # over TCP
//   perf/overlap_link 1gbit [SIZE...]                           # over a link of that rate (root)
//
// Each round takes, after a barrier and on the slowest rank, the time of the blocking call, of
// arithmetic alone for about as long, and of both: enqueue, compute, synchronise. Columns, medians
// over the rounds:
//
//   call, compute, both  those times, microseconds
//   cpu        CPU time of the process's other threads, the stream's worker above all, during
//              `both`: what the communication took from the CPUs, microseconds
//   hidden     (call + compute - both) / min(call, compute): 100 % when the shorter one is free
//   possible   the same were `both` as short as its CPU time allows: a rank that has one CPU
//              computes and communicates in turns
//   slowed     rank 0's arithmetic while its collective waits for the others, which enqueue theirs
//              after their arithmetic, over that alone: 1 when waiting costs nothing
//
// A rank is a process with a share of its host's CPUs to itself, as launchers bind ranks: on 2 CPUs
// 2 ranks have one each, and the stream's worker runs on that of its caller.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sched.h>

#include "nccl.h"
#include "tutti/stream.hpp"
#include "tutti/tutti.h"

namespace {

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "overlap: %s\n", why.c_str());
  std::exit(1);
}

void check(ncclResult_t result) {
  if (result == ncclSuccess) return;
  die(std::string(ncclGetErrorString(result)) + ": " + ncclGetLastError(nullptr));
}

double microseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(now).count();
}

double cpu_microseconds(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

/// CPU time of all threads but this one.
double others_cpu() {
  return cpu_microseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_microseconds(CLOCK_THREAD_CPUTIME_ID);
}

int environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

/// Binds this process to its share of the CPUs of its host, where each rank can have one; before
/// the library counts them. How many CPUs a rank has.
double bind_rank() {
  const int rank = environment("LOCAL_RANK", 0);
  const int ranks = std::max(1, environment("LOCAL_WORLD_SIZE", 1));
  cpu_set_t usable;
  if (::sched_getaffinity(0, sizeof usable, &usable) != 0) die("cannot tell the CPUs");
  const int cpus = CPU_COUNT(&usable), share = cpus / ranks;
  if (share == 0) return static_cast<double>(cpus) / ranks;
  cpu_set_t mine;
  CPU_ZERO(&mine);
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &usable) && seen++ / share == rank) CPU_SET(cpu, &mine);
  }
  if (::sched_setaffinity(0, sizeof mine, &mine) != 0) die("cannot bind to CPUs");
  return share;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// A communicator, and what of it measuring needs.
class Ranks {
 public:
  Ranks() {
    check(tuttiCommInitFromEnvironment(&comm_, nullptr, 0));
    check(ncclCommUserRank(comm_, &rank_));
    check(ncclCommCount(comm_, &count_));
  }
  ~Ranks() { ncclCommDestroy(comm_); }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int count() const { return count_; }

  void all_reduce(const std::vector<float>& send, std::vector<float>& recv, cudaStream_t stream) {
    check(
        ncclAllReduce(send.data(), recv.data(), send.size(), ncclFloat32, ncclSum, comm_, stream));
  }
  double largest(double mine) {
    check(ncclAllReduce(&mine, &mine, 1, ncclFloat64, ncclMax, comm_, nullptr));
    return mine;
  }
  double of_first(double mine) {
    check(ncclBroadcast(&mine, &mine, 1, ncclFloat64, 0, comm_, nullptr));
    return mine;
  }
  void barrier() { (void)largest(0); }

 private:
  ncclComm_t comm_ = nullptr;
  int rank_ = 0, count_ = 1;
};

/// Arithmetic on 16 KiB, which stay in the first-level cache.
class Arithmetic {
 public:
  Arithmetic() : values_(4096, 1) {}

  void run(std::size_t passes) {
    for (std::size_t pass = 0; pass < passes; ++pass) {
      for (float& value : values_) value = value * 0.999F + 0.5F;
    }
    kept_ = values_[passes % values_.size()];
  }

 private:
  std::vector<float> values_;
  volatile float kept_ = 0;
};

struct Samples {
  std::vector<double> call, compute, both, cpu, hidden, slowed;
};

class Experiment {
 public:
  Experiment(Ranks& ranks, tutti::Stream& stream, std::size_t bytes)
      : ranks_(ranks),
        stream_(stream),
        send_(std::max<std::size_t>(1, bytes / sizeof(float)), 1),
        recv_(send_.size()) {}

  Samples run() {
    constexpr int kWarmups = 5;
    constexpr std::size_t kFewest = 9, kMost = 301;
    for (int warmup = 0; warmup < kWarmups; ++warmup) round();
    samples_ = {};
    const double start = microseconds();
    // What rank 0 says about the time left holds for all.
    while (samples_.call.size() < kFewest ||
           (samples_.call.size() < kMost && ranks_.of_first(microseconds() - start) < kLongest)) {
      round();
    }
    if (recv_.back() != static_cast<float>(ranks_.count())) die("wrong result");
    return std::move(samples_);
  }

 private:
  static constexpr double kLongest = 1e6;  // microseconds

  /// All ranks get the same times, and so compute equally long.
  void round() {
    const double call = time_call();
    passes_ = std::max<std::size_t>(1, static_cast<std::size_t>(call / pass_us_));
    const double compute = time_compute();
    pass_us_ = compute / static_cast<double>(passes_);
    const double both = time_both();
    samples_.call.push_back(call);
    samples_.compute.push_back(compute);
    samples_.both.push_back(both);
    samples_.hidden.push_back((call + compute - both) / std::min(call, compute));
    samples_.slowed.push_back(time_waiting());
  }

  double time_call() {
    ranks_.barrier();
    const double start = microseconds();
    ranks_.all_reduce(send_, recv_, nullptr);
    return ranks_.largest(microseconds() - start);
  }

  double compute() {
    const double start = microseconds();
    arithmetic_.run(passes_);
    return microseconds() - start;
  }

  double time_compute() {
    ranks_.barrier();
    alone_ = compute();
    return ranks_.largest(alone_);
  }

  double time_both() {
    ranks_.barrier();
    const double cpu = others_cpu();
    const double start = microseconds();
    ranks_.all_reduce(send_, recv_, stream_.native());
    compute();
    synchronize();
    const double both = ranks_.largest(microseconds() - start);
    samples_.cpu.push_back(ranks_.largest(others_cpu() - cpu));
    return both;
  }

  /// Of rank 0's arithmetic, over that alone.
  double time_waiting() {
    ranks_.barrier();
    const bool first = ranks_.rank() == 0;
    if (first) ranks_.all_reduce(send_, recv_, stream_.native());
    const double computed = compute();
    if (!first) ranks_.all_reduce(send_, recv_, stream_.native());
    synchronize();
    return ranks_.of_first(computed / alone_);
  }

  void synchronize() {
    if (auto done = stream_.synchronize(); !done) die(done.error().what);
  }

  Ranks& ranks_;
  tutti::Stream& stream_;
  std::vector<float> send_, recv_;
  Arithmetic arithmetic_;
  std::size_t passes_ = 1;
  double pass_us_ = 1, alone_ = 0;
  Samples samples_;
};

void print(std::size_t bytes, const Samples& samples, double cpus) {
  const double call = median(samples.call), compute = median(samples.compute);
  const double cpu = median(samples.cpu);
  const double shortest = std::max({call, compute, (compute + cpu) / std::min(cpus, 2.0)});
  const double possible = std::max(0.0, (call + compute - shortest) / std::min(call, compute));
  std::printf("%10zu %9.0f %9.0f %9.0f %9.0f %7.0f %% %7.0f %% %9.2f %7zu\n", bytes, call, compute,
              median(samples.both), cpu, 100 * median(samples.hidden), 100 * possible,
              median(samples.slowed), samples.both.size());
  std::fflush(stdout);
}

std::size_t parse_bytes(const char* text) {
  char* end = nullptr;
  const std::size_t number = std::strtoull(text, &end, 10);
  const std::string_view unit(end);
  if (number == 0 || (!unit.empty() && unit != "K" && unit != "M"))
    die("'" + std::string(text) + "' is no size; usage: overlap [SIZE...], as in 64K or 16M");
  return unit.empty() ? number : number << (unit == "K" ? 10 : 20);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::size_t> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(parse_bytes(argv[i]));
  for (std::size_t bytes = 64 << 10; argc == 1 && bytes <= 64 << 20; bytes *= 4)
    sizes.push_back(bytes);
  const double cpus = bind_rank();
  Ranks ranks;
  auto stream = tutti::Stream::create();
  if (!stream) die(stream.error().what);
  if (ranks.rank() == 0)
    std::printf("%10s %9s %9s %9s %9s %9s %9s %9s %7s\n", "bytes", "call", "compute", "both", "cpu",
                "hidden", "possible", "slowed", "rounds");
  for (const std::size_t bytes : sizes) {
    const Samples samples = Experiment(ranks, *stream, bytes).run();
    if (ranks.rank() == 0) print(bytes, samples, cpus);
  }
}
